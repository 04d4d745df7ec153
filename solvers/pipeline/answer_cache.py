"""Cache of the feature sets' answers on the evaluation rows with eviction.

A stage's classifier depends only on the features acquired so far, so chromosomes share classifiers (EMSCO, Section
4.3). The cache holds a confidence and an answer per row. It computes the accepted rows from them and a threshold, as
bit sets. So a sweep over thresholds trains no feature set twice. The empty set accepts no rows and is never trained.
When the cache is full, the half of the feature sets that was not used for the longest time is evicted.

With losses, the answer is the one of least expected loss, which may be to reject, and its confidence is 1 minus its
expected loss as a share of the largest loss.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.arrays import Bools, Floats, Int64s, UInt64s
from models.errors import Fault, InvalidRequest
from models.losses import Losses
from solvers.pipeline.bit_packing import pack_bits

Thresholds = float | Floats
"""Accept threshold: one number, or (answers,) by answer."""
Train = Callable[[UInt64s], tuple[NDArray[Any], NDArray[Any]]]
"""Trains classifiers of feature sets, (m,) masks; returns confidences and codes of answers, (m, rows)."""

MUST_ANSWER = np.uint64(1 << 63)
"""Bit of a mask: its classifier must answer every row, whatever its confidence. No feature has this bit."""
ACCEPTED, CORRECT, FLAGGED = 0, 1, -1
"""Bit sets of a vote: accepted rows, correctly accepted rows, and false positives or rejects."""
MAX_BYTES = 1 << 30
MAX_LEVELS = 12
"""Maximum number of different qualities above 0 with a bit set each; more are written in binary."""
QUALITY_BITS = 16
"""Binary digits of a quality."""


def split_qualities(qualities: Floats) -> tuple[Floats, Bools]:
    """Split qualities into bits, so that sums of qualities are weighted bit counts.

    Args:
        qualities: (C, A), of each answer for each true class, in [0, 1].
    Returns:
        Weights (k,) and bits (k, C, A) with ``qualities = sum(weights * bits)``: exactly for at most ``MAX_LEVELS``
        different qualities above 0, else to ``2 ** -QUALITY_BITS``.

    >>> weights, bits = split_qualities(np.array([[1.0, 0.0], [0.95, 1.0]]))
    >>> weights.tolist(), bits.astype(int).tolist()
    ([0.95, 1.0], [[[0, 0], [1, 0]], [[1, 0], [0, 1]]])
    """
    levels = np.unique(qualities[qualities > 0])
    if len(levels) <= MAX_LEVELS:
        return levels, qualities == levels[:, None, None]
    largest, digits = (1 << QUALITY_BITS) - 1, np.arange(QUALITY_BITS)
    whole = np.rint(qualities * largest).astype(np.int64)
    return 2.0**digits / largest, (whole >> digits[:, None, None] & 1).astype(bool)


class AnswerCache:
    """Answers of classifiers on the evaluation rows, by feature set; not thread-safe.

    Args:
        train: trains feature sets that are not cached.
        labels: (rows,), codes of the true classes, from 0 to classes - 1.
        positive: the class whose false positives are flagged, if any; not with losses.
        losses: losses of answers; rejects are flagged. None: all errors are equal.
        max_bytes: memory limit of the cache; a single request may exceed it.

    >>> rows = np.array([0, 1, 1])
    >>> answers = AnswerCache(lambda masks: (np.full((len(masks), 3), 0.8), np.ones((len(masks), 3), dtype=int)), rows)
    >>> answers.get_votes(np.array([0, 1], dtype=np.uint64), 0.75).tolist()
    [[[0], [0]], [[7], [6]]]
    >>> answers.get_votes(np.array([1], dtype=np.uint64), 0.85).tolist(), answers.trained
    ([[[0], [0]]], 1)
    """

    def __init__(
        self,
        train: Train,
        labels: NDArray[np.integer],
        *,
        classes: int = 2,
        positive: int | None = None,
        losses: Losses | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        codes = np.asarray(labels)
        if codes.ndim != 1 or len(codes) == 0 or codes.min() < 0 or codes.max() >= classes:
            raise InvalidRequest.from_faults(
                Fault(("labels",), f"must be one code from 0 to {classes - 1} for each row")
            )
        if positive is not None and not 0 <= positive < classes:
            raise InvalidRequest.from_faults(
                Fault(("positive",), f"must be a code from 0 to {classes - 1}, got {positive}")
            )
        self._train, self._labels, self._positive, self.losses = train, codes, positive, losses
        self._answers = classes if losses is None else losses.matrix.shape[1]
        self.weights, self._planes = split_qualities(np.eye(classes) if losses is None else 1 - losses.shares)
        """Weights, (k,), of the bit sets whose weighted counts are sums of qualities."""
        self.has_flags = positive is not None or (losses is not None and losses.rejects)
        """Whether the last bit set of a vote has false positives, or rejects."""
        self.rows = len(codes)
        self.negatives = 0 if positive is None else int(np.count_nonzero(codes != positive))
        self.trained = 0
        """Number of trained classifiers."""
        self._max_bytes = max_bytes
        self._indices: dict[int, int] = {}
        """Index of each feature set in the arrays, least recently used first."""
        self._confidence = np.zeros((0, self.rows), dtype=np.float32)
        self._predicted = np.zeros((0, self.rows), dtype=np.min_scalar_type(self._answers - 1))
        sets = 1 + len(self.weights) + self.has_flags
        self._packed = np.zeros((0, sets, -(-self.rows // 64)), dtype=np.uint64)
        self._current = np.zeros(0, dtype=bool)
        """Whether each bit set is of ``_threshold``."""
        self._threshold = np.zeros(0)

    @property
    def quality_without_features(self) -> float:
        """Sum of the qualities of the best answer that is equal for all rows; 0 without losses."""
        return 0.0 if self.losses is None else float((1 - self.losses.shares)[self._labels].sum(axis=0).max())

    def get_votes(self, masks: UInt64s, threshold: Thresholds) -> UInt64s:
        """Return the accepted rows of feature sets at a threshold, and the bits of their qualities, as bit sets.

        Without losses, the bits are the correctly accepted rows. Feature sets that are not cached are trained first.

        Args:
            masks: (m,), distinct; with the bit ``MUST_ANSWER`` every row is accepted.
            threshold: in [0, 1].
        Returns:
            Array of shape (m, 1 + k, words) for k ``weights``; with false positives or rejects, (m, 2 + k, words).
        Complexity: O(m) at the same threshold as before, else O(m rows), plus training.
        """
        self._set_threshold(threshold)
        requested = np.asarray(masks, dtype=np.uint64)
        must_answer, sets = (requested & MUST_ANSWER) != 0, requested & ~MUST_ANSWER
        is_trained = sets != 0
        keys, last = sets[is_trained].tolist(), must_answer[is_trained]
        self._train_missing(list(dict.fromkeys(keys)))
        indices = np.array([self._indices[mask] for mask in keys], dtype=np.int64)
        self._update_bits(indices[~last & ~self._current[indices]])
        votes = np.zeros((len(requested), *self._packed.shape[1:]), dtype=np.uint64)
        votes[is_trained & ~must_answer] = self._packed[indices[~last]]
        every = np.ones((np.count_nonzero(last), self.rows), dtype=bool)
        votes[is_trained & must_answer] = self._pack_votes(every, self._predicted[indices[last]])
        return votes

    def get_confidences(self, masks: UInt64s) -> Floats:
        """Return the confidences of feature sets, (m, rows); sets that are not cached are trained first."""
        keys = masks.tolist()
        self._train_missing(keys)
        return np.asarray(self._confidence[[self._indices[mask] for mask in keys]])

    def get_lattice(
        self, features: Int64s, threshold: Thresholds, *, always_answers: bool = False
    ) -> tuple[UInt64s, UInt64s]:
        """Return the accepted and the correctly accepted rows of all subsets of some features.

        Args:
            features: (k,).
            always_answers: whether the classifier of all k features must answer.
        Returns:
            Two arrays (2^k, words), indexed by the mask over these features.
        """
        among = np.arange(1 << len(features), dtype=np.uint64)
        masks = np.zeros_like(among)
        for bit, feature in enumerate(features.tolist()):
            masks |= (among >> np.uint64(bit) & np.uint64(1)) << np.uint64(feature)
        masks[-1] |= MUST_ANSWER * always_answers
        votes = self.get_votes(masks, threshold)
        return np.ascontiguousarray(votes[:, ACCEPTED]), np.ascontiguousarray(votes[:, CORRECT])

    def _set_threshold(self, threshold: Thresholds) -> None:
        by_class = np.asarray(threshold, dtype=np.float64)
        if by_class.shape not in ((), (self._answers,)):
            raise InvalidRequest.from_faults(
                Fault(
                    ("threshold",),
                    f"must be one number, or one for each of the {self._answers} answers, got shape {by_class.shape}",
                )
            )
        if not np.all((by_class >= 0) & (by_class <= 1)):
            raise InvalidRequest.from_faults(Fault(("threshold",), f"must be from 0 to 1, got {by_class.tolist()}"))
        by_class = np.broadcast_to(by_class, (self._answers,))
        if not np.array_equal(by_class, self._threshold):
            self._threshold = by_class.copy()
            self._current[:] = False

    def _train_missing(self, keys: list[int]) -> None:
        """Train sets that are not cached, and mark all as recently used.

        If memory is full, other sets are evicted.
        """
        new = [mask for mask in keys if mask not in self._indices]
        for mask in keys:
            if mask in self._indices:
                self._indices[mask] = self._indices.pop(mask)
        if not new:
            return
        confidence, predicted = self._train_checked(new)
        if len(self._indices) + len(new) > self._capacity():
            self._evict(max(len(keys) - len(new), self._capacity() // 2 - len(new)))
        start = len(self._indices)
        self._reserve(start + len(new), confidence.dtype)
        self._confidence[start : start + len(new)] = confidence
        self._predicted[start : start + len(new)] = predicted
        self._current[start : start + len(new)] = False
        self._indices.update({mask: start + i for i, mask in enumerate(new)})

    def _train_checked(self, new: list[int]) -> tuple[NDArray[Any], NDArray[Any]]:
        confidence, predicted = (np.asarray(each) for each in self._train(np.array(new, dtype=np.uint64)))
        shape = (len(new), self.rows)
        if confidence.shape != shape or predicted.shape != shape:
            message = f"shapes must be {shape}, got {confidence.shape} and {predicted.shape}"
            raise InvalidRequest.from_faults(Fault(("train",), message))
        if predicted.min() < 0 or predicted.max() >= self._answers:
            raise InvalidRequest.from_faults(Fault(("train",), f"codes must be from 0 to {self._answers - 1}"))
        self.trained += len(new)
        return confidence, predicted

    def _capacity(self) -> int:
        """Return how many feature sets fit into memory."""
        word_count = int(np.prod(self._packed.shape[1:]))
        return self._max_bytes // (self.rows * (self._confidence.itemsize + self._predicted.itemsize) + 8 * word_count)

    def _evict(self, keep: int) -> None:
        """Evict all but the ``keep`` most recently used feature sets."""
        kept = list(self._indices.items())[max(len(self._indices) - keep, 0) :]
        indices = np.array([place for _, place in kept], dtype=np.int64)
        self._confidence, self._predicted = self._confidence[indices], self._predicted[indices]
        self._packed, self._current = self._packed[indices], self._current[indices]
        self._indices = {mask: i for i, (mask, _) in enumerate(kept)}

    def _reserve(self, size: int, dtype: np.dtype[np.floating]) -> None:
        """Grow the arrays to a capacity, by at least half of their size."""
        room = len(self._current)
        if size > room:
            more = max(size - room, min(room // 2, max(self._capacity() - room, 0)))
            self._confidence, self._predicted, self._packed, self._current = (
                np.concatenate((each, np.zeros((more, *each.shape[1:]), dtype=each.dtype)))
                for each in (self._confidence.astype(dtype, copy=False), self._predicted, self._packed, self._current)
            )

    def _update_bits(self, indices: Int64s) -> None:
        for part in np.array_split(indices, len(indices) // 4096 + 1):
            confidence, predicted = self._confidence[part], self._predicted[part]
            accepted = confidence >= self._threshold.astype(confidence.dtype)[predicted]
            self._packed[part] = self._pack_votes(accepted, predicted)
            self._current[part] = True

    def _pack_votes(self, accepted: Bools, predicted: NDArray[Any]) -> UInt64s:
        """Pack accepted rows and the codes of answers, (m, rows) each, into bit sets."""
        if self.losses is None:
            sets = [accepted, accepted & (predicted == self._labels)]
        else:
            sets = [accepted, *(accepted & plane[self._labels, predicted] for plane in self._planes)]
        if self._positive is not None:
            sets.append(accepted & (predicted == self._positive) & (self._labels != self._positive))
        elif self.has_flags:
            sets.append(accepted & (predicted == self._answers - 1))
        return np.stack([pack_bits(each) for each in sets], axis=1)
