"""Fields of a policy plan: a PolicyPlan's arrays, as they are stored."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from models.arrays import Amounts, Bools, Floats, Halves, Int32s, Int64s, Probabilities, Singles
from solvers.cell_encoding import CellEncoding
from solvers.policy.embedding_axes import EmbeddingAxes
from solvers.setup_groups import NO_GROUPS, SetupGroups


@dataclass(frozen=True, slots=True, eq=False)
class PolicyContents:
    """Stored decisions at every node of the DAG, under each of the H trade-offs of the curve.

    Each node has K members. There are M sensors with D columns, S nodes, E edges, and C classes. Costs are in ``unit``.
    """

    unit: str
    """The unit of costs and budgets."""
    sensors: tuple[str, ...]
    """M names."""
    classes: tuple[str, ...]
    """Class names in the order of their codes, the C true classes first."""
    costs: Amounts
    """(M,) mean cost of each sensor."""
    owners: Int32s
    """(D,) the sensor of each column (``Sensors``)."""
    labelled: Bools
    """(D,) whether a column holds labels."""
    ranges: Floats
    """(D, 2) minimum and maximum of each column in the dataset."""
    members: Bools
    """(S, M) the sensors of each node of the DAG (``Graph``)."""
    offsets: Int32s
    """(S + 1,) offsets of each node's edges."""
    targets: Int32s
    """(E,) target node of each edge."""
    class_base: Singles
    """(S, K, C) base logits of nodes' classifiers (``NodeClassifiers``)."""
    class_columns: Int32s
    """(S, K, T, d) split columns of their T trees of depth d."""
    class_thresholds: Floats
    """(S, K, T, d) split thresholds."""
    class_leaves: Halves
    """(S, K, T, 2^d, C) logits of leaves; the total rounding error is below 0.01."""
    base: Singles
    """(E, K, H) mean advantages of edges over stopping, without step costs."""
    edge_columns: Int32s
    """(S, K, T', d') split columns among the node's features (``NodePolicy``)."""
    edge_thresholds: Floats
    """(S, K, T', d') split thresholds."""
    edge_leaves: Singles
    """(E, K, T', 2^d', H) advantages of leaves."""
    tradeoffs: Floats
    """(H,) weight of a unit of cost at each point of the curve; -1 for points without decisions."""
    point_costs: Amounts
    """(H,) mean cost of an item on validation rows."""
    point_bounds: Amounts
    """(H,) upper confidence bound of the mean cost, at ``confidence``, rising."""
    point_errors: Probabilities
    """(H,) error rate, falling."""
    point_sensors: Amounts
    """(H,) mean number of acquired sensors."""
    point_reached: Probabilities
    """(H, 2) cross-validated error rate at the same budgets: of the rows that select points for an accuracy, and of the
    others (``curve``).
    """
    choosing: int
    """Number of rows that select points for an accuracy."""
    point_cost_errors: Amounts
    """(H,) the standard errors of ``point_costs``."""
    independence: float
    """Effective rows per row: below 1 where items repeat among the rows."""
    confidence: float
    """Confidence level of ``point_bounds``."""
    rows: int
    """Number of validation rows."""
    graph: Literal["subsets", "grown"] = "subsets"
    """grown: the nodes are a selection of sets (``growth``); subsets: they are all sets."""
    caps: Amounts = field(default_factory=lambda: np.empty(0))
    """(B,) hard budgets that decisions were learned for, rising. They follow the H trade-offs in ``base`` and
    ``edge_leaves``, which have H + B points.
    """
    cap_tradeoffs: Amounts = field(default_factory=lambda: np.empty(0))
    """(B,) weight of a unit of cost under each."""
    cap_costs: Amounts = field(default_factory=lambda: np.empty(0))
    """(B,) mean cost of an item under each, on validation rows."""
    cap_errors: Probabilities = field(default_factory=lambda: np.empty(0))
    """(B,) error rate."""
    point_coverages: Probabilities = field(default_factory=lambda: np.empty(0))
    """(H,) share of items that get an answer; (0,) if no item is rejected."""

    point_caps: Floats = field(default_factory=lambda: np.empty(0))
    """(H,) hard budgets of points of the curve, -1 for points without; (0,) if no point has one."""

    times: Amounts = field(default_factory=lambda: np.empty(0))
    """(M,) maximum time of each sensor, in ``time_unit``; (0,) if unknown."""
    time_unit: str = ""
    """Unit of times and deadlines; empty if times are unknown."""
    fetches: Int32s = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    """(M,) the fetch of each sensor (``sensor_times``); (0,) if each is fetched alone."""
    deadlines: Amounts = field(default_factory=lambda: np.empty(0))
    """(B',) deadlines that decisions were learned for, rising. They follow the hard budgets; ``base`` and
    ``edge_leaves`` then have H + B + B' points.
    """
    deadline_tradeoffs: Amounts = field(default_factory=lambda: np.empty(0))
    """(B',) weight of a unit of cost under each."""
    deadline_errors: Probabilities = field(default_factory=lambda: np.empty(0))
    """(B',) error rate."""

    cell_owners: Int32s = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    """(d,) sensor of each table column where columns have categories or missing cells (``CellEncoding``); else (0,)."""
    cell_fills: Floats = field(default_factory=lambda: np.empty(0))
    """(d,) imputed value of missing numbers."""
    cell_marks: Bools = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    """(d,) whether the column has a missing-value indicator."""
    cell_offsets: Int64s = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    """(d + 1,) offsets of each column's categories in ``cell_categories``; empty ranges for numbers."""
    cell_categories: tuple[str, ...] = ()
    """Categories with a one-hot column."""
    cells_missing: bool = False
    """Whether cells may be missing."""

    columns: tuple[str, ...] = ()
    """(d,) names of the table's columns, in the sensors' order; () for a trace."""

    embedding_centre: Floats = field(default_factory=lambda: np.empty(0))
    """(d,) mean that is subtracted from embeddings; (0,) if items have none (``EmbeddingAxes``)."""
    embedding_axes: Singles = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))
    """(d, k) projection of embeddings to the last k of the D columns, which have no sensor."""

    answering: Literal["combined", "taken"] = "combined"
    """taken: the answer of one acquired sensor is returned, because answers have no classes in common. The classes are
    then the sensors, and nodes' classifiers predict answer quality (``classless``).
    """

    loss_matrix: Amounts = field(default_factory=lambda: np.empty((0, 0)))
    """(C, A) loss of each answer for each true class, in ``unit``; with A = C + 1 the last answer is to reject. (0, 0)
    if all errors are equal, or losses were measured (``Losses``).
    """
    loss_scale: float = 1.0
    """The largest loss, in ``unit``, which errors are shares of; 1 if all errors are equal."""
    reject_quality: float | None = None
    """Without classes, 1 minus the loss of a reject as a share of the largest loss; None: items are never rejected."""

    setup_names: tuple[str, ...] = ()
    """Names of the G set-up groups: work that sensors share and an item pays for once (``solvers.setup_groups``)."""
    setup_members: Bools = field(default_factory=lambda: np.empty((0, 0), dtype=np.bool_))
    """(G, M) the sensors of each group; (0, 0) without groups."""
    setup_costs: Amounts = field(default_factory=lambda: np.empty(0))
    """(G,) mean cost of each group."""
    setup_times: Amounts = field(default_factory=lambda: np.empty(0))
    """(G,) maximum time of each group, in ``time_unit``; (0,) if unknown."""

    @cached_property
    def setup(self) -> SetupGroups:
        """The sensors of each set-up group."""
        return SetupGroups(self.setup_members) if self.setup_names else NO_GROUPS

    @cached_property
    def extended_costs(self) -> Floats:
        """(M + G,), mean cost of each sensor, then of each set-up group."""
        return np.concatenate((self.costs, self.setup_costs))

    @property
    def has_losses(self) -> bool:
        """Whether errors have different losses."""
        return len(self.loss_matrix) > 0 or self.loss_scale != 1.0 or self.reject_quality is not None

    @property
    def classless(self) -> bool:
        """Whether answers have no common classes."""
        return self.answering == "taken"

    @property
    def has_to_acquire(self) -> bool:
        """Whether at least one sensor must be acquired: it gives the answer, and items are never rejected."""
        return self.classless and self.reject_quality is None

    @property
    def can_reject(self) -> bool:
        """Whether items may be rejected."""
        classes = self.class_base.shape[2]
        return self.reject_quality is not None or self.loss_matrix.shape == (classes, classes + 1)

    @property
    def points(self) -> int:
        """Number of trade-offs, hard budgets, and deadlines that decisions were learned for."""
        return len(self.tradeoffs) + len(self.caps) + len(self.deadlines)

    def embedding_projection(self) -> EmbeddingAxes | None:
        """Return the projection of embeddings; None if items have none."""
        return EmbeddingAxes(self.embedding_centre, self.embedding_axes) if len(self.embedding_centre) else None

    def stored_encoding(self) -> CellEncoding | None:
        """Return the encoding of categories and missing cells; None if there are none."""
        if not len(self.cell_owners):
            return None
        return CellEncoding.from_plan(self)
