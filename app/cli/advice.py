"""``parsimony advise``: recommends an artifact kind for a dataset."""

import json
import shlex
from typing import Annotated, Any

import typer

from app import terminal
from app.cli.builds import Local, follow_build
from app.cli.options import AsJson
from app.cli.service import open_service
from models.advice import Advice, AdviceRequest


def advise(
    dataset: Annotated[str, typer.Argument(help="Dataset to learn from.")],
    budget: Annotated[float | None, typer.Option(help="Budget: mean cost per item.")] = None,
    deadline: Annotated[float | None, typer.Option(help="Hard limit on the time of each item.")] = None,
    min_accuracy: Annotated[float | None, typer.Option(help="Lower bound on accuracy, 0 to 1.")] = None,
    time_limit: Annotated[float, typer.Option(help="Seconds for all kinds together.")] = 600.0,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Build every artifact kind that the dataset allows, and recommend one within the limits."""
    request = AdviceRequest(
        dataset=dataset,
        budget=budget,
        deadline=deadline,
        min_accuracy=min_accuracy,
        time_limit_s=time_limit,
        seed=seed,
    )
    if local:
        advice = _advise_here(request)
    else:
        with open_service() as service:
            follow_build(service, service.enqueue_advice(request))
            advice = service.get_advice(dataset)
    print_advice(advice, as_json)


def _advise_here(request: AdviceRequest) -> Advice:
    from app.building.run_build import build_advice
    from app.cli.in_process import open_store

    with open_store() as repos, terminal.progress_bar(f"advice on {request.dataset}") as progress:
        return build_advice(repos, request, progress)


def print_advice(advice: Advice, as_json: bool) -> None:
    """Print advice: the recommendation, each kind, and the baselines."""
    if as_json:
        terminal.print_json(advice.model_dump(mode="json"))
        return
    out = terminal.get_console()
    out.print(advice.summary)
    terminal.print_warnings([one.model_dump() for one in advice.warnings])
    out.print()
    quality = terminal.quality_title(advice.alternatives[0], advice.unit)
    rows = [
        (one.kind, terminal.format_quality(one), one.cost, one.savings.brief if one.savings else "-", one.verdict)
        for one in advice.kinds
        if one.accuracy is not None
    ]
    if rows:
        columns = ["kind", quality, f"cost, {advice.unit}", "savings", "verdict"]
        terminal.print_table(f"on {advice.rows.holdout} holdout rows", columns, rows, whole=("kind",))
    for one in advice.kinds:
        if one.accuracy is None:
            out.print(f"{one.kind}: no setting is within these limits")
    for left_out in advice.excluded:
        out.print(f"{left_out.kind}: {left_out.reason}")
    alone = [(one.name, terminal.format_quality(one), one.cost) for one in advice.alternatives]
    terminal.print_table("simple baselines", ["", quality, f"cost, {advice.unit}"], alone)
    _print_build(advice)


def _print_build(advice: Advice) -> None:
    """Print the commands that build and query the recommended kind."""
    for one in advice.kinds:
        if one.kind == advice.recommended:
            given = "".join(f" -p {name}={shlex.quote(json.dumps(value))}" for name, value in one.params.items())
            build = f"parsimony build {one.kind} {advice.dataset} --dataset {advice.dataset}{given}"
            terminal.get_console().print(f"Build it: {build}", soft_wrap=True)
            ask = " ".join(f"{name}={shlex.quote(json.dumps(_short(value)))}" for name, value in one.query.items())
            terminal.get_console().print(f"Ask it with {ask}; it is what was compared.", soft_wrap=True)


def _short(value: Any) -> Any:
    """Format numbers of a query with six digits."""
    if isinstance(value, dict):
        return {name: _short(one) for name, one in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value
