"""Commands of single artifact kinds: ``index measure``, ``portfolio assign``, …"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from app import terminal
from app.cli.commands import command_group
from app.cli.decisions import show_decision
from app.cli.key_values import parse_json_or_text
from app.cli.options import AsJson, NameArgument
from app.cli.service import open_service
from models.portfolio import BatchBudget
from solvers.kind import make_query

index = command_group("Measure the costs of features, for indexes.")
portfolio = command_group("Assign batches of queries, with portfolios.")


@index.command("measure")
def index_measure(
    features: Annotated[
        list[str], typer.Argument(help="Feature functions, as module:function; each is called with an item.")
    ],
    item: Annotated[str, typer.Option(help="Function that creates an item of a given size, as module:function.")],
    sizes: Annotated[str, typer.Option(help="Comma-separated sizes: 64,128 or 640x480,1280x960.")],
    repeats: Annotated[int, typer.Option(min=1, help="Number of timed calls for each function and size.")] = 20,
    degree: Annotated[
        int, typer.Option(min=0, max=15, help="Degree of the polynomial that is fitted to the times.")
    ] = 2,
    quantile: Annotated[float, typer.Option(help="Quantile of the times that the cost covers; 1: the maximum.")] = 0.95,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="JSON file to write the costs of each function to.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the times of your feature functions over item sizes, as costs for a features spec."""
    from app.cli.feature_timing import fit_cost_spec, format_polynomial, measure

    with terminal.progress_bar("measuring") as progress:
        timings = measure(features, item, sizes.split(","), repeats, degree, progress)
    fitted = {name: fit_cost_spec(rows, degree, quantile) for name, rows in timings.items()}
    costs = {name: spec for name, (spec, _, _) in fitted.items()}
    if output is not None:
        output.write_text(json.dumps(costs))
    if as_json:
        terminal.print_json(costs)
        return
    rows = [
        (name, format_polynomial(function), fit.rms, fit.largest_over) for name, (_, function, fit) in fitted.items()
    ]
    terminal.print_table("cost in ms", ["feature", "cost", "rms", "most above"], rows)


@portfolio.command("assign")
def portfolio_assign(
    name: NameArgument,
    queries: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help="Queries: .npy or Parquet with a row per query, or .txt with a text per line.",
        ),
    ],
    budget: Annotated[
        str | None, typer.Option(help="Budget: mean cost per query, a number or 30% of the most expensive.")
    ] = None,
    budget_total: Annotated[
        float | None, typer.Option(help="Total budget of all queries, instead of a budget per query.")
    ] = None,
    min_accuracy: Annotated[float | None, typer.Option(help="Lower bound on accuracy, 0 to 1.")] = None,
    objective: Annotated[str, typer.Option(help="Maximize the mean or the min of the estimates.")] = "mean",
    regularization: Annotated[
        float | None, typer.Option(help="Standard errors to subtract from estimates; default: as built.")
    ] = None,
    gap: Annotated[float | None, typer.Option(help="Maximum gap to the optimum, as a share.")] = None,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds after which the best solution so far is returned.")
    ] = None,
    constraints: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="JSON file of further limits, as in the API."),
    ] = None,
    sizes: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Sizes of the queries: .npy.")] = None,
    costs: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Costs: .npy of shape (queries, classifiers).")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write: assignments as .parquet or CSV; .json: the whole reply."),
    ] = None,
    version: Annotated[
        int | None, typer.Option(min=1, help="Version of the artifact; default: the active one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Assign a batch of queries to classifiers within a budget and other limits."""
    asked = {
        "budget": None if budget is None else parse_json_or_text(budget),
        "budget_total": budget_total,
        "min_accuracy": min_accuracy,
        "objective": objective,
        "regularization": regularization,
        "gap": gap,
        "time_limit_s": time_limit,
    }
    with open_service() as service:
        files = {"queries": queries, "constraints": constraints, "sizes": sizes, "costs": costs}
        parts = {part: file.read_bytes() for part, file in files.items() if file is not None}
        if queries.suffix == ".txt":
            parts["texts"] = orjson.dumps(parts.pop("queries").decode(errors="replace").splitlines())
        reply = service.assign_batch(name, parts, asked, version)
        if output is not None:
            output.write_bytes(_written(reply, output.suffix.lower()))
        show_decision(service, reply, version, as_json)


@portfolio.command("assign-files")
def portfolio_assign_files(
    name: NameArgument,
    queries: Annotated[
        str, typer.Argument(help="Parquet files of queries: path or URL of a file, folder, or pattern.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Parquet file of the assignments to write.")],
    budget: Annotated[
        str | None, typer.Option(help="Budget: mean cost per query, a number or 30% of the most expensive.")
    ] = None,
    budget_total: Annotated[float | None, typer.Option(help="Total budget of all queries, instead.")] = None,
    version: Annotated[
        int | None, typer.Option(min=1, help="Version of the artifact; default: the active one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Assign the queries of files larger than memory within one budget, in this process."""
    from app.serving.local import LocalPlan
    from app.sources.assign_files import assign_files
    from solvers.portfolio import PortfolioPlan

    limits = make_query(
        BatchBudget, budget=None if budget is None else parse_json_or_text(budget), budget_total=budget_total
    )
    with open_service() as service:
        record = service.get_artifact("portfolio", name, version)
        plan = LocalPlan(service.export(record)).plan
    assert isinstance(plan, PortfolioPlan)
    url = queries if "://" in queries else f"file://{Path(queries).absolute()}"
    with terminal.progress_bar("assigning") as progress:
        done = assign_files(plan, record.params, url, limits, output, progress)
    facts = asdict(done)
    if as_json:
        terminal.print_json(facts)
    else:
        terminal.print_facts(f"portfolio {name}, version {record.version}, in {record.unit}", facts)


def _written(reply: dict[str, Any], suffix: str) -> bytes:
    """Write a batch's reply in the format of the file's suffix."""
    from app.store.query_tables import as_csv, as_parquet

    whole = orjson.dumps(reply)
    if suffix == ".json":
        return whole
    return as_parquet(whole) if suffix == ".parquet" else as_csv(whole)
