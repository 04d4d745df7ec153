"""Commands of single artifact kinds: ``index measure``, ``portfolio assign``, …"""

import json
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from app import terminal
from app.cli.commands import command_group
from app.cli.decisions import show_decision
from app.cli.key_values import json_or_text
from app.cli.options import AsJson, NameArgument
from app.cli.service import open_service

index = command_group("Indexes: what features cost.")
portfolio = command_group("Portfolios: batches of queries.")


@index.command("measure")
def index_measure(
    features: Annotated[list[str], typer.Argument(help="Feature functions, as module:function; each takes an item.")],
    item: Annotated[str, typer.Option(help="What makes an item of a size, as module:function.")],
    sizes: Annotated[str, typer.Option(help="Sizes, comma-separated: 64,128 or 640x480,1280x960.")],
    repeats: Annotated[int, typer.Option(min=1, help="Timed calls for each function and size.")] = 20,
    degree: Annotated[int, typer.Option(min=0, max=15, help="Degree of the polynomial.")] = 2,
    quantile: Annotated[float, typer.Option(help="The quantile of the times to provision for; 1: the worst.")] = 0.95,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A JSON file of costs, by function.")] = None,
    as_json: AsJson = False,
) -> None:
    """Time your own feature functions over item sizes; the costs go into a features spec as they are."""
    from app.cli.feature_timing import cost_of, measure, polynomial_text

    with terminal.progress_bar("measuring") as progress:
        timings = measure(features, item, sizes.split(","), repeats, degree, progress)
    fitted = {name: cost_of(rows, degree, quantile) for name, rows in timings.items()}
    costs = {name: spec for name, (spec, _, _) in fitted.items()}
    if output is not None:
        output.write_text(json.dumps(costs))
    if as_json:
        terminal.print_json(costs)
        return
    rows = [(name, polynomial_text(function), fit.rms, fit.largest_over) for name, (_, function, fit) in fitted.items()]
    terminal.print_table("cost in ms", ["feature", "cost", "rms", "most above"], rows)


@portfolio.command("assign")
def portfolio_assign(
    name: NameArgument,
    queries: Annotated[
        Path,
        typer.Argument(exists=True, dir_okay=False, help="A row a query: .npy or Parquet; or .txt, a text a line."),
    ],
    budget: Annotated[
        str | None, typer.Option(help="What a query may cost on average: a number, or 30% of the most expensive.")
    ] = None,
    budget_total: Annotated[float | None, typer.Option(help="What all queries together may cost, instead.")] = None,
    min_accuracy: Annotated[float | None, typer.Option(help="The least share of right answers, 0 to 1.")] = None,
    objective: Annotated[str, typer.Option(help="mean or min: which of the estimates is to be highest.")] = "mean",
    regularization: Annotated[
        float | None, typer.Option(help="Standard deviations of its error taken off an estimate; else as built.")
    ] = None,
    gap: Annotated[float | None, typer.Option(help="How far from the optimum the answer may be, as a share.")] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds after which the best so far is taken.")] = None,
    constraints: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A JSON file of further limits, as the API takes them."),
    ] = None,
    sizes: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="A .npy file of the size of each query.")
    ] = None,
    costs: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="A .npy file of costs, queries x classifiers.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The assignments: .parquet, or else CSV; .json: all of the reply."),
    ] = None,
    version: Annotated[int | None, typer.Option(min=1, help="The version to ask; else the active one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Assign a batch of queries to classifiers within a budget, or within several limits at once."""
    asked = {
        "budget": None if budget is None else json_or_text(budget),
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


def _written(reply: dict[str, Any], suffix: str) -> bytes:
    """Write a batch's reply as the file's name asks."""
    from app.store.query_tables import as_csv, as_parquet

    whole = orjson.dumps(reply)
    if suffix == ".json":
        return whole
    return as_parquet(whole) if suffix == ".parquet" else as_csv(whole)
