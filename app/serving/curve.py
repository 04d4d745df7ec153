"""The trade-off curve of an artifact, with intervals, its baselines, and the default operating point."""

from collections.abc import Iterable, Sequence

from app.serving.answers import with_intervals
from app.serving.catalog import Live
from models import Value
from models.curve import Baseline, BaselinePoint, CurvePoint, CurveReply
from models.worth import Expected
from solvers.base import Plan
from solvers.statistics import wilson


def curve_of(live: Live[Plan], query: Value) -> CurveReply:
    """Return the curve; raises what the kind's ``curve`` raises."""
    rows = live.kind.judged_on(live.record.summary)
    points = live.kind.curve(live.plan, query)
    worth = live.record.worth
    return CurveReply(
        points=tuple(
            CurvePoint.model_construct(
                limits=dict(one.limits),
                expected=Expected.model_construct(**with_intervals(one.expectations, rows)),
                decision=dict(one.decision),
            )
            for one in points
        ),
        baselines=tuple(_baselines(live, rows)),
        default={} if worth is None else dict(worth.query),
        rows=rows,
        unit=live.record.unit,
        artifact=live.ref,
    )


def _baselines(live: Live[Plan], rows: int) -> Iterable[Baseline]:
    """Yield the baselines that the build measured, on the rows of the worth or of the curve."""
    worth = live.record.worth
    for one in () if worth is None else worth.alternatives:
        counted = 0 if worth is None else worth.rows
        yield Baseline(name=one.name, points=_points([(one.accuracy, one.cost)], counted), rows=counted)
    for name, points in live.kind.baselines(live.plan).items():
        yield Baseline(name=name, points=_points(points, rows), rows=rows)


def _points(points: Sequence[tuple[float, float]], rows: int) -> tuple[BaselinePoint, ...]:
    return tuple(
        BaselinePoint(accuracy=accuracy, accuracy_interval=wilson(accuracy, rows) if rows else None, cost=cost)
        for accuracy, cost in points
    )
