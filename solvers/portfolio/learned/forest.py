"""Random forests as arrays: trained by scikit-learn, stored and evaluated without it."""

from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int32s, Int64s, Singles

TREES, MAX_LEAVES, MIN_LEAF_ROWS, MAX_DEPTH = 100, 2000, 3, 30
MAX_NUMBERS = 3_000_000
"""Maximum number of stored numbers, 12 MB: with many classifiers trees have fewer leaves."""


@dataclass(frozen=True, slots=True, eq=False)
class RandomForest:
    """T trees in one list of v nodes.

    Attributes:
        roots: (T,), root of each tree.
        columns: (v,), split column; -1 for a leaf.
        thresholds: (v,); larger values lead to the right child.
        left: (v,), left child; the right child is the next node.
        values: (v, m), estimates of leaves.
    """

    roots: Int32s
    columns: Int32s
    thresholds: Singles
    left: Int32s
    values: Singles

    @classmethod
    def fit(cls, inputs: Singles, targets: Floats, seed: int) -> "RandomForest":
        """Fit extremely randomized trees to rows (n, e) and targets (n, m), without bootstrap samples.

        Complexity: O(T n log n e).
        Source: Geurts, Ernst, Wehenkel, *Extremely randomized trees*, 2006.
        """
        from joblib import Parallel, delayed
        from sklearn.tree import ExtraTreeRegressor

        def fit_tree(tree_seed: int) -> RandomForest:
            tree = ExtraTreeRegressor(
                min_samples_leaf=MIN_LEAF_ROWS,
                max_leaf_nodes=max(2, min(MAX_LEAVES, MAX_NUMBERS // (2 * TREES * (3 + targets.shape[1])))),
                max_depth=MAX_DEPTH,
                max_features=max(inputs.shape[1] // 3, 1),
                random_state=tree_seed,
            )
            return _renumber_nodes(tree.fit(inputs, targets, check_input=False).tree_)

        inputs, targets = np.ascontiguousarray(inputs, np.float32), np.ascontiguousarray(targets, np.float64)
        seeds = np.random.RandomState(seed).randint(np.iinfo(np.int32).max, size=TREES)  # as ExtraTreesRegressor draws
        return cls._join(Parallel(n_jobs=-1, prefer="threads")(delayed(fit_tree)(each) for each in seeds.tolist()))

    @classmethod
    def _join(cls, trees: "list[RandomForest]") -> "RandomForest":
        """Join trees into one list of nodes."""
        starts = np.cumsum([0, *(len(one.columns) for one in trees)])[:-1].astype(np.int32)
        return cls(
            starts,
            np.concatenate([one.columns for one in trees]),
            np.concatenate([one.thresholds for one in trees]),
            np.concatenate([one.left + start for one, start in zip(trees, starts, strict=True)]).astype(np.int32),
            np.concatenate([one.values for one in trees]),
        )

    def estimate(self, inputs: Singles) -> Floats:
        """Return the mean of the trees' estimates for (n, e) rows: (n, m).

        Complexity: O(T n (depth + m)).
        """
        total = np.zeros((len(inputs), self.values.shape[1]))
        if len(inputs) <= len(self.roots):
            for row, values in zip(inputs, total, strict=True):
                values += self.values[self._find_leaves(row)].mean(axis=0)
            return total
        for root in self.roots.tolist():
            total += self.values[self._find_tree_leaves(root, inputs)]
        return total / len(self.roots)

    def _find_leaves(self, row: Singles) -> Int64s:
        """Return the leaf of every tree for one row, (T,)."""
        at = self.roots.astype(np.int64)
        while True:
            columns = self.columns[at]
            going = columns >= 0
            if not going.any():
                return at
            at = np.where(going, self.left[at] + (row[columns] > self.thresholds[at]), at)

    def _find_tree_leaves(self, root: int, inputs: Singles) -> Int64s:
        """Return one tree's leaf for every row, (n,)."""
        at, going = np.full(len(inputs), root, dtype=np.int64), np.arange(len(inputs))
        while len(going):
            nodes = at[going]
            inside = self.columns[nodes] >= 0
            going, nodes = going[inside], nodes[inside]
            at[going] = self.left[nodes] + (inputs[going, self.columns[nodes]] > self.thresholds[nodes])
        return at


def _renumber_nodes(tree: object) -> RandomForest:
    """Renumber a tree's nodes level by level, so that siblings are adjacent."""
    left, right = np.asarray(tree.children_left), np.asarray(tree.children_right)  # type: ignore[attr-defined]
    order, at = [0], 0
    while at < len(order):
        node = order[at]
        if left[node] >= 0:
            order += [int(left[node]), int(right[node])]
        at += 1
    chosen = np.array(order)
    place = np.empty(len(order), dtype=np.int32)
    place[chosen] = np.arange(len(order))
    inner = left[chosen] >= 0
    values = np.where(inner[:, None], 0.0, np.asarray(tree.value)[chosen, :, 0])  # type: ignore[attr-defined]
    return RandomForest(
        np.zeros(1, dtype=np.int32),
        np.where(inner, np.asarray(tree.feature)[chosen], -1).astype(np.int32),  # type: ignore[attr-defined]
        np.asarray(tree.threshold)[chosen].astype(np.float32),  # type: ignore[attr-defined]
        np.where(inner, place[left[chosen]], 0).astype(np.int32),
        values.astype(np.float32),
    )
