"""Spend routes: the cost of calls, as JSON or CSV."""

import csv
import io
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

from fastapi import Depends, Query, Request, Response
from pydantic import BeforeValidator

from app.http.json_bodies import JsonRouter, negotiate_media_type
from app.routes.dependencies import InContext, error_responses, require_store
from app.store.spending import RETENTION_DAYS
from app.store.table_types import CSV_TYPES
from models import Fault, InvalidRequest
from models.spend import SPEND_COLUMNS, SpendColumn, SpendReport, SpendRow, group_spend

router = JsonRouter(prefix="/v1", tags=["budgets"], dependencies=[Depends(require_store)])
DEFAULT_DAYS, DASHES = 30, 2


def _refuse_numbers(day: object) -> object:
    """Reject numbers, which would be read as seconds since 1970."""
    if not (isinstance(day, str) and day.count("-") == DASHES):
        raise ValueError("must be a day such as 2026-11-28")
    return day


Day = Annotated[date, BeforeValidator(_refuse_numbers)]


@router.get(
    "/spend",
    summary="Report what calls have cost",
    response_model=SpendReport,
    responses={200: {"content": {CSV_TYPES[0]: {"schema": {"type": "string"}}}}, **error_responses(503)},
)
def report_spend(
    context: InContext,
    request: Request,
    start: Annotated[Day | None, Query(description="first day, UTC; default: 30 days ending with the last")] = None,
    end: Annotated[Day | None, Query(description="last day, UTC; default: today")] = None,
    by: Annotated[
        list[SpendColumn] | None, Query(description="columns to group by; default: all", examples=[["team"]])
    ] = None,
) -> Response:
    """Return the cost of calls, compared with the strongest classifier only.

    The calls are those of runs, chats, and batches. Rows with `is_planned` have the planned costs of assignments. Costs
    are added within seconds. With `Accept: text/csv`, the reply is a table of the rows.
    """
    last = end or datetime.now(UTC).date()
    first = start or last - timedelta(days=DEFAULT_DAYS - 1)
    if not 0 <= (last - first).days < RETENTION_DAYS:
        fault = (
            f"must be from 0 to {RETENTION_DAYS - 1} days before end, got {first.isoformat()} and {last.isoformat()}"
        )
        raise InvalidRequest.from_faults(Fault(("start",), fault))
    columns = tuple(one for one in SPEND_COLUMNS if by is None or one in by)
    spend = context.repos.spending.read_spend(first, last)
    rows = group_spend(spend, columns)
    if negotiate_media_type(request, *CSV_TYPES) in CSV_TYPES:
        headers = {"Content-Disposition": f'attachment; filename="spend-{first}-{last}.csv"'}
        return Response(_write_csv(rows, columns), headers=headers, media_type=CSV_TYPES[0])
    totals = group_spend(spend, ())
    report = SpendReport(start=first.isoformat(), end=last.isoformat(), rows=rows, totals=totals)
    return Response(report.model_dump_json(), media_type="application/json")


def _write_csv(rows: tuple[SpendRow, ...], columns: tuple[SpendColumn, ...]) -> str:
    """Return the rows as CSV, with a line of column names."""
    names = [*columns, *(name for name in SpendRow.model_fields if name not in SPEND_COLUMNS)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_without_formula(getattr(row, name)) for name in names] for row in rows)
    return out.getvalue()


def _without_formula(cell: object) -> object:
    """Return a cell in a form that spreadsheet programs do not evaluate.

    >>> _without_formula("=1+1"), _without_formula(-0.5)
    ("'=1+1", -0.5)
    """
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell
