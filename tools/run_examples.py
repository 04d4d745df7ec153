"""Run the notebooks of ``examples``, and store what their cells print and draw in ``examples/outputs``.

Needs a server: ``make serve``, then ``.venv/bin/python tools/run_examples.py``. The site shows the stored outputs; a
test fails if a notebook has changed since.
"""

import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import jupytext

EXAMPLES = Path(__file__).parents[1] / "examples"
OUTPUTS = EXAMPLES / "outputs"


def list_cells(name: str) -> list[tuple[str, str]]:
    """Return the type, code or markdown, and the text of a notebook's cells."""
    return [(cell["cell_type"], cell["source"]) for cell in jupytext.read(EXAMPLES / f"{name}.py")["cells"]]


def run_notebook(name: str) -> Iterator[dict[str, Any]]:
    """Run a notebook; yield the code, the printed text, and the figures' files of each cell of code."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams |= {"svg.hashsalt": name, "figure.figsize": (6, 4)}
    import matplotlib.pyplot as plt

    namespace: dict[str, Any] = {"__name__": "__main__"}
    for at, (kind, source) in enumerate(list_cells(name)):
        if kind != "code":
            continue
        printed, figures = io.StringIO(), list[str]()
        with redirect_stdout(printed):
            exec(compile(source, f"{name}, cell {at}", "exec"), namespace)
        for number in plt.get_fignums():
            figures.append(f"{name}-{at}-{number}.svg")
            plt.figure(number).savefig(OUTPUTS / figures[-1], bbox_inches="tight", metadata={"Date": None})
        plt.close("all")
        yield {"code": source, "printed": printed.getvalue(), "figures": figures}


def write_page(name: str) -> str:
    """Return a notebook as a page, with the stored outputs. Raises ValueError if they are of other cells."""
    outputs = iter(json.loads((OUTPUTS / f"{name}.json").read_text()))
    parts = []
    for kind, source in list_cells(name):
        if kind != "code":
            parts.append(source)
            continue
        output = next(outputs)
        if output["code"] != source:
            raise ValueError(f"examples/outputs/{name}.json is of other cells; run tools/run_examples.py")
        parts.append(f"```python\n{source}\n```")
        parts += [f"```text\n{output['printed']}```"] if output["printed"] else []
        parts += [f"![]({figure})" for figure in output["figures"]]
    return "\n\n".join(parts)


def main() -> None:
    """Run the notebooks that are named, or all."""
    OUTPUTS.mkdir(exist_ok=True)
    for name in sys.argv[1:] or sorted(path.stem for path in EXAMPLES.glob("*.py")):
        ran = list(run_notebook(name))
        (OUTPUTS / f"{name}.json").write_text(json.dumps(ran, indent=1) + "\n")


if __name__ == "__main__":
    main()
