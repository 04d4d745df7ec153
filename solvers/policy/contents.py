"""What a policy plan keeps."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from models.arrays import Amounts, Bools, Floats, Halves, Int32s, Int64s, Probabilities, Singles
from solvers.cell_encoding import CellEncoding
from solvers.policy.embedding_axes import EmbeddingAxes


@dataclass(frozen=True, slots=True, eq=False)
class PolicyContents:
    """A decision for every node of the DAG, in K members, under each of the H trade-offs of the curve.

    There are M sensors with D columns, S nodes, E edges, and C classes. Costs are in ``unit``.
    """

    unit: str
    """The unit of costs and budgets."""
    sensors: tuple[str, ...]
    """M names."""
    classes: tuple[str, ...]
    """Names in whose order labels of sensors are coded, the C true classes first."""
    costs: Amounts
    """(M,) the average cost of each sensor."""
    owners: Int32s
    """(D,) the sensor of each column (``Sensors``)."""
    labelled: Bools
    """(D,) whether a column holds labels."""
    ranges: Floats
    """(D, 2) the least and the largest number of each column in the dataset."""
    members: Bools
    """(S, M) the sensors of each node of the DAG (``Graph``)."""
    offsets: Int32s
    """(S + 1,) cuts edges by the node they leave."""
    targets: Int32s
    """(E,) the node that each edge leads to."""
    class_base: Singles
    """(S, K, C) the logits that trees of nodes' classifiers add to (``Classifiers``)."""
    class_columns: Int32s
    """(S, K, T, d) the columns that their T trees of depth d ask about."""
    class_thresholds: Floats
    """(S, K, T, d) above which a question is answered yes."""
    class_leaves: Halves
    """(S, K, T, 2^d, C) the logits that leaves add; what is rounded away adds up to less than a hundredth."""
    base: Singles
    """(E, K, H) mean advantages of edges over stopping, without their prices."""
    edge_columns: Int32s
    """(S, K, T', d') the node features that forests ask about (``Regressed``)."""
    edge_thresholds: Floats
    """(S, K, T', d') above which a question is answered yes."""
    edge_leaves: Singles
    """(E, K, T', 2^d', H) the advantages that leaves add."""
    tradeoffs: Floats
    """(H,) what a unit of cost weighs in each point of the curve; -1 for stopping at once."""
    point_costs: Amounts
    """(H,) what an item costs on average, on validation."""
    point_bounds: Amounts
    """(H,) what it costs at most, with ``confidence``, rising."""
    point_errors: Probabilities
    """(H,) the share of items that are classified wrongly, falling."""
    point_sensors: Amounts
    """(H,) how many sensors an item acquires on average."""
    point_reached: Probabilities
    """(H, 2) the share that was classified wrongly at the same budgets where other rows had chosen the curve: of those
    that choose the point for an accuracy, and of the others (``curve``)."""
    choosing: int
    """How many of the rows those are that choose."""
    point_cost_errors: Amounts
    """(H,) the standard errors of ``point_costs``."""
    independence: float
    """Effective rows per row: below 1 where items repeat among the rows."""
    confidence: float
    """With which the bounds hold."""
    rows: int
    """How many items the curve was validated on."""
    graph: Literal["subsets", "grown"] = "subsets"
    """Which sets are nodes: of a grown graph, those that were worth coming to."""
    caps: Amounts = field(default_factory=lambda: np.empty(0))
    """(B,) rising hard budgets that decisions were learned for, after those of the H trade-offs: base and edge_leaves
    have H + B points."""
    cap_tradeoffs: Amounts = field(default_factory=lambda: np.empty(0))
    """(B,) what a unit of cost weighs under each."""
    cap_costs: Amounts = field(default_factory=lambda: np.empty(0))
    """(B,) what an item costs on average under each, on validation."""
    cap_errors: Probabilities = field(default_factory=lambda: np.empty(0))
    """(B,) the share of items that are classified wrongly."""

    point_caps: Floats = field(default_factory=lambda: np.empty(0))
    """(H,) the hard budgets of points of the curve that have one, -1 for the others; (0,): none has."""

    times: Amounts = field(default_factory=lambda: np.empty(0))
    """(M,) how long each sensor takes at most, in ``time_unit``; (0,): not known."""
    time_unit: str = ""
    """The unit of times and deadlines; none where times are not known."""
    fetches: Int32s = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    """(M,) which fetch brings each sensor (``sensor_times``); (0,): each its own."""
    deadlines: Amounts = field(default_factory=lambda: np.empty(0))
    """(B',) rising deadlines that decisions were learned for, after those of the hard budgets; base and edge_leaves
    have H + B + B' points then."""
    deadline_tradeoffs: Amounts = field(default_factory=lambda: np.empty(0))
    """(B',) what a unit of cost weighs under each."""
    deadline_errors: Probabilities = field(default_factory=lambda: np.empty(0))
    """(B',) the share of items that are classified wrongly."""

    cell_owners: Int32s = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    """(d,) the sensor of each column of the table where some have categories or missing cells (``CellEncoding``); (0,):
    none has."""
    cell_fills: Floats = field(default_factory=lambda: np.empty(0))
    """(d,) what stands for a missing number."""
    cell_marks: Bools = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    """(d,) whether a second column tells that a number was missing."""
    cell_offsets: Int64s = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    """(d + 1,) where the categories of each column stand in ``cell_categories``, none for numbers."""
    cell_categories: tuple[str, ...] = ()
    """Those that have a column of their own."""
    cells_missing: bool = False
    """Whether cells may be missing."""

    columns: tuple[str, ...] = ()
    """(d,) the names of the table's columns, in the sensors' order; (): of a trace."""

    embedding_centre: Floats = field(default_factory=lambda: np.empty(0))
    """(d,) what is taken off an item's embedding; (0,): items have none (``EmbeddingAxes``)."""
    embedding_axes: Singles = field(default_factory=lambda: np.empty((0, 0), dtype=np.float32))
    """(d, k) the axes along which it is measured then: the last k of the D columns, which are no sensor's."""

    answering: Literal["combined", "taken"] = "combined"
    """taken: the answer is that of a sensor, for answers have no classes in common; the classes are the sensors then,
    and nodes' classifiers tell how good the answer of each is (``classless``)."""

    @property
    def classless(self) -> bool:
        """Whether answers have no classes in common."""
        return self.answering == "taken"

    @property
    def points(self) -> int:
        """How many trade-offs, hard budgets and deadlines decisions were learned for."""
        return len(self.tradeoffs) + len(self.caps) + len(self.deadlines)

    def embedding(self) -> EmbeddingAxes | None:
        """How an item's embedding becomes columns; None where items have none."""
        return EmbeddingAxes(self.embedding_centre, self.embedding_axes) if len(self.embedding_centre) else None

    def encoding(self) -> CellEncoding | None:
        """How categories and missing cells become the D columns; None where there are none."""
        if not len(self.cell_owners):
            return None
        return CellEncoding.kept_in(self)
