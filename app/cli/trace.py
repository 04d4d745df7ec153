"""``parsimony trace``: calls models for prompts, grades their answers, and writes a trace."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from app import terminal
from app.cli.options import AsJson
from app.cli.service import ServiceClient, open_service
from app.cli.trace_files import store_trace, write_trace
from app.importing.graders import CommandCheck, ExactMatch, Grader, Judge
from app.importing.paid_call_journal import PaidCallJournal
from app.importing.pivot import pivot_calls
from app.importing.trace_filler import Prompts, TraceFiller, read_prompts, require_costs
from models.errors import Fault, InvalidRequest, ParsimonyError


def fill_trace(
    prompts: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="Prompts: JSON Lines, CSV, or Parquet, one per row.")
    ],
    endpoints: Annotated[
        str, typer.Option(help="Models to call, by their endpoints: cheap,strong; the best one last.")
    ],
    text: Annotated[str | None, typer.Option(help="Column of the prompts; default: recognized by its name.")] = None,
    expected: Annotated[str | None, typer.Option(help="Column of expected answers.")] = None,
    check: Annotated[
        str | None,
        typer.Option(help="Command that reads text and answer as JSON, and prints a quality, or exits with 0 or 1."),
    ] = None,
    judge: Annotated[
        str | None, typer.Option(help="Endpoint that compares each answer with that of the last model.")
    ] = None,
    budget: Annotated[float | None, typer.Option(min=0, help="Upper bound on the cost of all calls.")] = None,
    unit: Annotated[str, typer.Option(help="Unit of the costs.")] = "USD",
    seed: Annotated[int, typer.Option(help="Random seed of the order of the prompts.")] = 0,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Parquet file of the trace; spec and log of calls are next to it.")
    ] = Path("trace.parquet"),
    name: Annotated[str | None, typer.Option(help="Dataset to store the trace as; default: only files.")] = None,
    as_json: AsJson = False,
) -> None:
    """Call models for prompts, grade their answers, and write a trace; repeat the command to continue."""
    models = _parse_endpoints(endpoints)
    _refuse_two_graders(expected=expected, check=check, judge=judge)
    read = read_prompts(prompts, text, expected)
    log = PaidCallJournal.open_log(output.with_suffix(".calls.jsonl"))
    try:
        with open_service() as service, terminal.progress_bar("calling") as progress:
            grader = _make_grader(service, read, check, judge)
            _require_endpoints(service, models if judge is None else (*models, judge))
            filling = TraceFiller(log, read, models, service.probe_endpoint, grader, budget)
            filling.fill_missing_cells(seed, progress)
        require_costs(log)
    finally:
        log.close()
    write_trace(*_to_trace(log, read, unit), output)
    report = _summarize(log, read, unit)
    if as_json:
        terminal.print_json(report)
    else:
        terminal.print_facts("trace", report)
    store_trace(output, name, to_stderr=as_json)


def _require_endpoints(service: ServiceClient, names: tuple[str, ...]) -> None:
    """Raise InvalidRequest for endpoints that are not registered, before any call is paid for."""
    known = [str(one["name"]) for one in service.list_endpoints()]
    unknown = [repr(name) for name in names if name not in known]
    if unknown:
        there = f"available: {', '.join(known)}" if known else "available: none"
        message = f"must be registered, got {', '.join(unknown)}; {there}"
        raise InvalidRequest.from_faults(Fault(("endpoints",), message))


def _parse_endpoints(text: str) -> tuple[str, ...]:
    """Return the names in a comma-separated list.

    Raises InvalidRequest for an empty list or a duplicate name.
    """
    names = tuple(filter(None, (one.strip() for one in text.split(","))))
    if not names or len(set(names)) < len(names):
        raise InvalidRequest.from_faults(Fault(("endpoints",), f"must name different endpoints, got {text!r}"))
    return names


def _refuse_two_graders(**options: str | None) -> None:
    given = [name for name, value in options.items() if value is not None]
    if len(given) > 1:
        raise InvalidRequest.from_faults(Fault((given[0],), f"cannot be combined with --{given[1]}"))


def _make_grader(service: ServiceClient, prompts: Prompts, check: str | None, judge: str | None) -> Grader:
    if check is not None:
        return CommandCheck(tuple(shlex.split(check)))
    if judge is not None:
        return Judge(lambda text: _ask_judge(service, judge, text))
    if not prompts.expected:
        raise InvalidRequest.from_faults(Fault(("expected",), "is required, unless --check or --judge is set"))
    return ExactMatch(prompts.expected)


def _ask_judge(service: ServiceClient, judge: str, text: str) -> tuple[str, float]:
    reply = service.probe_endpoint(judge, text)
    if reply.get("error") is not None:
        raise ParsimonyError(f"the judge failed: {reply['error']}; repeat the command to continue")
    return str(reply.get("text") or reply.get("label") or ""), float(reply.get("cost") or 0.0)


def _to_trace(log: PaidCallJournal, prompts: Prompts, unit: str) -> tuple[pa.Table, dict[str, Any]]:
    calls = log.list_calls(prompts.texts)
    if not calls:
        raise ParsimonyError(f"no answer could be graded: {next(iter(log.count_errors()), 'no call was made')}")
    table, spec = pivot_calls(calls, unit)
    spec["joint_propensity"] = "smallest"  # each model is called for the first prompts of one order
    return table, spec


def _summarize(log: PaidCallJournal, prompts: Prompts, unit: str) -> dict[str, Any]:
    bias = log.position_bias()
    return {
        "prompts": len(prompts.texts),
        "rows": len({prompt for prompt, _ in log.grades}),
        "calls": len(log.calls),
        "spent": log.spent,
        "unit": unit,
        **({} if bias is None else {"position_bias": bias}),
        **({"errors": dict(errors)} if (errors := log.count_errors()) else {}),
    }
