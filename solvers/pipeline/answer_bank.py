"""What the classifier of each feature set says of the evaluation rows: trained at most once, asked at any threshold.

A stage's classifier depends only on the features acquired so far, so chromosomes share classifiers (EMSCO, Section
4.3). The bank keeps each one's confidence and prediction per row. What is accepted follows from them and the threshold,
as bit sets; so a sweep over thresholds trains nothing twice. The empty set accepts nothing and is never trained.

Memory is bounded: when it is used up, the feature sets asked for longest ago are forgotten, half of them at once. Only
then can one be trained again.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.arrays import Bools, Floats, Int64s, UInt64s
from models.errors import Fault, InvalidRequest
from solvers.pipeline.bit_rows import pack_bits

Thresholds = float | Floats
"""The confidence from which on a prediction is accepted: one for all, or (classes,) by predicted class."""
Train = Callable[[UInt64s], tuple[NDArray[Any], NDArray[Any]]]
"""Trains the classifiers of feature sets, (m,) masks: confidence of the predicted class (m, rows), its code (m,
rows)."""

MUST_ANSWER = np.uint64(1 << 63)
"""This bit of a mask, which no feature has, asks what its classifier says where it must answer, however sure it is."""
ACCEPTED, CORRECT, ALARM = 0, 1, 2
"""Bit sets of a vote: accepted rows; those accepted rightly; those accepted as positive though they are not."""
MAX_BYTES = 1 << 30


class AnswerBank:
    """Answers of classifiers on the evaluation rows, by feature set.

    train: called with feature sets that are not known, each once. labels: (rows,) codes of the true classes, from 0 to
    classes - 1. positive: the class whose false alarms are kept as a third bit set. max_bytes: what answers may take;
    one request may take more. Not for several threads at once.

    >>> rows = np.array([0, 1, 1])
    >>> answers = AnswerBank(lambda masks: (np.full((len(masks), 3), 0.8), np.ones((len(masks), 3), dtype=int)), rows)
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
        max_bytes: int = MAX_BYTES,
    ) -> None:
        codes = np.asarray(labels)
        if codes.ndim != 1 or len(codes) == 0 or codes.min() < 0 or codes.max() >= classes:
            raise InvalidRequest.from_faults(
                Fault(("labels",), f"must be one code from 0 to {classes - 1} for each row")
            )
        if positive is not None and not 0 <= positive < classes:
            raise InvalidRequest.from_faults(
                Fault(("positive",), f"is {positive}, must be a code from 0 to {classes - 1}")
            )
        self._train, self._labels, self._classes, self._positive = train, codes, classes, positive
        self.rows = len(codes)
        self.negatives = 0 if positive is None else int(np.count_nonzero(codes != positive))
        self.trained = 0
        """Trainings so far."""
        self._max_bytes = max_bytes
        self._places: dict[int, int] = {}
        """Where each feature set stands, the one asked for longest ago first."""
        self._confidence = np.zeros((0, self.rows), dtype=np.float32)
        self._predicted = np.zeros((0, self.rows), dtype=np.min_scalar_type(classes - 1))
        self._packed = np.zeros((0, 2 if positive is None else 3, -(-self.rows // 64)), dtype=np.uint64)
        self._current = np.zeros(0, dtype=bool)
        """Which bit sets are those of ``_threshold``."""
        self._threshold = np.zeros(0)

    def get_votes(self, masks: UInt64s, threshold: Thresholds) -> UInt64s:
        """Give bit sets of feature sets, (m,) distinct masks, at a threshold: (m, 2, words), with alarms (m, 3, words).

        Masks with the bit ``AT_THE_END`` accept every row. Trains what is not known yet. Confidences are compared in
        their own type. O(m) for what has been asked for at the same threshold, else O(m rows) beside the training.
        Raises InvalidRequest for thresholds outside [0, 1] or not one for each class, and for answers that do not fit.
        """
        self._set_threshold(threshold)
        given = np.asarray(masks, dtype=np.uint64)
        after_last_stage, sets = (given & MUST_ANSWER) != 0, given & ~MUST_ANSWER
        there = sets != 0
        asked, last = sets[there].tolist(), after_last_stage[there]
        self._train_missing(list(dict.fromkeys(asked)))
        places = np.array([self._places[mask] for mask in asked], dtype=np.int64)
        self._update_bits(places[~last & ~self._current[places]])
        votes = np.zeros((len(given), *self._packed.shape[1:]), dtype=np.uint64)
        votes[there & ~after_last_stage] = self._packed[places[~last]]
        every = np.ones((np.count_nonzero(last), self.rows), dtype=bool)
        votes[there & after_last_stage] = self._pack_votes(every, self._predicted[places[last]])
        return votes

    def get_lattice(
        self, features: Int64s, threshold: Thresholds, *, answers_at_the_end: bool = False
    ) -> tuple[UInt64s, UInt64s]:
        """Give accepted, and accepted rightly, of all 2^k sets of some features, (k,), by their mask among these: two
        of (2^k, words).

        answers_at_the_end: whether the classifier of all k features must answer.
        """
        among = np.arange(1 << len(features), dtype=np.uint64)
        masks = np.zeros_like(among)
        for bit, feature in enumerate(features.tolist()):
            masks |= (among >> np.uint64(bit) & np.uint64(1)) << np.uint64(feature)
        masks[-1] |= MUST_ANSWER * answers_at_the_end
        votes = self.get_votes(masks, threshold)
        return np.ascontiguousarray(votes[:, ACCEPTED]), np.ascontiguousarray(votes[:, CORRECT])

    def _set_threshold(self, threshold: Thresholds) -> None:
        by_class = np.asarray(threshold, dtype=np.float64)
        if by_class.shape not in ((), (self._classes,)):
            raise InvalidRequest.from_faults(
                Fault(("threshold",), f"has shape {by_class.shape}, must be one number or {self._classes}")
            )
        if not np.all((by_class >= 0) & (by_class <= 1)):
            raise InvalidRequest.from_faults(Fault(("threshold",), f"is {by_class.tolist()}, must be from 0 to 1"))
        by_class = np.broadcast_to(by_class, (self._classes,))
        if not np.array_equal(by_class, self._threshold):
            self._threshold = by_class.copy()
            self._current[:] = False

    def _train_missing(self, asked: list[int]) -> None:
        """Train what is new, having made room for it, and remember what was asked for last."""
        new = [mask for mask in asked if mask not in self._places]
        for mask in asked:
            if mask in self._places:
                self._places[mask] = self._places.pop(mask)
        if not new:
            return
        confidence, predicted = self._train_checked(new)
        if len(self._places) + len(new) > self._capacity():
            self._evict(max(len(asked) - len(new), self._capacity() // 2 - len(new)))
        start = len(self._places)
        self._reserve(start + len(new), confidence.dtype)
        self._confidence[start : start + len(new)] = confidence
        self._predicted[start : start + len(new)] = predicted
        self._current[start : start + len(new)] = False
        self._places.update({mask: start + i for i, mask in enumerate(new)})

    def _train_checked(self, new: list[int]) -> tuple[NDArray[Any], NDArray[Any]]:
        confidence, predicted = (np.asarray(each) for each in self._train(np.array(new, dtype=np.uint64)))
        shape = (len(new), self.rows)
        if confidence.shape != shape or predicted.shape != shape:
            message = f"answered with shapes {confidence.shape} and {predicted.shape}, must be {shape}"
            raise InvalidRequest.from_faults(Fault(("train",), message))
        if predicted.min() < 0 or predicted.max() >= self._classes:
            raise InvalidRequest.from_faults(Fault(("train",), f"predicted other codes than 0 to {self._classes - 1}"))
        self.trained += len(new)
        return confidence, predicted

    def _capacity(self) -> int:
        """How many feature sets fit into memory."""
        word_count = int(np.prod(self._packed.shape[1:]))
        return self._max_bytes // (self.rows * (self._confidence.itemsize + self._predicted.itemsize) + 8 * word_count)

    def _evict(self, keep: int) -> None:
        """Keep so many of the feature sets, those asked for last."""
        kept = list(self._places.items())[max(len(self._places) - keep, 0) :]
        places = np.array([place for _, place in kept], dtype=np.int64)
        self._confidence, self._predicted = self._confidence[places], self._predicted[places]
        self._packed, self._current = self._packed[places], self._current[places]
        self._places = {mask: i for i, (mask, _) in enumerate(kept)}

    def _reserve(self, size: int, dtype: np.dtype[np.floating]) -> None:
        """Let the arrays grow to hold so many, by half as many again at least."""
        room = len(self._current)
        if size > room:
            more = max(size - room, min(room // 2, max(self._capacity() - room, 0)))
            self._confidence, self._predicted, self._packed, self._current = (
                np.concatenate((each, np.zeros((more, *each.shape[1:]), dtype=each.dtype)))
                for each in (self._confidence.astype(dtype, copy=False), self._predicted, self._packed, self._current)
            )

    def _update_bits(self, places: Int64s) -> None:
        """Work out bit sets at the threshold."""
        for part in np.array_split(places, len(places) // 4096 + 1):
            confidence, predicted = self._confidence[part], self._predicted[part]
            accepted = confidence >= self._threshold.astype(confidence.dtype)[predicted]
            self._packed[part] = self._pack_votes(accepted, predicted)
            self._current[part] = True

    def _pack_votes(self, accepted: Bools, predicted: NDArray[Any]) -> UInt64s:
        """Make the bit sets of votes from what is accepted and predicted, (m, rows) each."""
        sets = [accepted, accepted & (predicted == self._labels)]
        if self._positive is not None:
            sets.append(accepted & (predicted == self._positive) & (self._labels != self._positive))
        return np.stack([pack_bits(each) for each in sets], axis=1)
