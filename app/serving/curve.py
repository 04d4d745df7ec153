"""The trade-off curve of an artifact, with intervals, its baselines, and the default operating point."""

from collections.abc import Iterable, Sequence

from app.serving.answers import with_intervals
from app.serving.catalog import LoadedArtifact
from models import Value
from models.curve import Baseline, BaselinePoint, CurvePoint, CurveReply
from models.savings import ExpectedOutcome
from solvers.base import Plan
from solvers.statistics import wilson_interval


def curve_of(loaded: LoadedArtifact[Plan], query: Value) -> CurveReply:
    """Return the curve; raises what the kind's ``curve`` raises."""
    rows = loaded.kind.judged_on(loaded.record.summary)
    points = loaded.kind.curve(loaded.plan, query)
    savings = loaded.record.savings
    return CurveReply(
        points=tuple(
            CurvePoint.model_construct(
                limits=dict(one.limits),
                expected=ExpectedOutcome.model_construct(**with_intervals(one.expectations, rows)),
                decision=dict(one.decision),
            )
            for one in points
        ),
        baselines=tuple(_baselines(loaded, rows)),
        default={} if savings is None else dict(savings.query),
        rows=rows,
        unit=loaded.record.unit,
        artifact=loaded.ref,
    )


def _baselines(loaded: LoadedArtifact[Plan], rows: int) -> Iterable[Baseline]:
    """Yield the baselines that the build measured, on the rows of the savings or of the curve."""
    savings = loaded.record.savings
    for one in () if savings is None else savings.baselines:
        counted = 0 if savings is None else savings.rows
        yield Baseline(name=one.name, points=_points([(one.accuracy, one.cost)], counted), rows=counted)
    for name, points in loaded.kind.baselines(loaded.plan).items():
        yield Baseline(name=name, points=_points(points, rows), rows=rows)


def _points(points: Sequence[tuple[float, float]], rows: int) -> tuple[BaselinePoint, ...]:
    return tuple(
        BaselinePoint(accuracy=accuracy, accuracy_interval=wilson_interval(accuracy, rows) if rows else None, cost=cost)
        for accuracy, cost in points
    )
