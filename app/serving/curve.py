"""The trade-off curve of an artifact, with confidence intervals, baselines, and the default operating point."""

from collections.abc import Iterable, Sequence

from app.serving.catalog import LoadedArtifact
from app.serving.decision_replies import with_intervals
from models import Value
from models.curve import Baseline, BaselinePoint, CurvePoint, CurveReply
from models.losses import LossPrices
from models.savings import ExpectedOutcome
from solvers.base import Plan
from solvers.statistics import wilson_interval


def make_curve_reply(loaded: LoadedArtifact[Plan], query: Value) -> CurveReply:
    """Return the trade-off curve; raises the errors of the kind's ``curve``."""
    rows = loaded.kind.count_evidence_rows(loaded.record.summary)
    points = loaded.kind.curve(loaded.plan, query)
    savings = loaded.record.savings
    return CurveReply(
        points=tuple(
            CurvePoint.model_construct(
                limits=dict(one.limits),
                expected=ExpectedOutcome.model_construct(
                    **with_intervals(one.expectations, rows, loaded.record.losses)
                ),
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
    """Yield the build's baselines, measured on the rows of the savings or of the curve."""
    savings, losses = loaded.record.savings, loaded.record.losses
    for one in () if savings is None else savings.baselines:
        counted = 0 if savings is None else min(savings.rows, rows or savings.rows)
        yield Baseline(name=one.name, points=_points([(one.accuracy, one.cost)], counted, losses), rows=counted)
    for name, points in loaded.kind.baselines(loaded.plan).items():
        yield Baseline(name=name, points=_points(points, rows, losses), rows=rows)


def _points(points: Sequence[tuple[float, float]], rows: int, losses: LossPrices | None) -> tuple[BaselinePoint, ...]:
    return tuple(
        BaselinePoint(
            accuracy=accuracy,
            accuracy_interval=wilson_interval(accuracy, rows) if rows else None,
            loss=None if losses is None else losses.largest * (1 - accuracy),
            cost=cost,
        )
        for accuracy, cost in points
    )
