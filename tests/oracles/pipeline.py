"""The pipeline in plain Python: rows walked one by one, all chromosomes tried, costs as fractions; random tables."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from models.arrays import Bools, Floats

Chromosome = tuple[int, ...]
Groups = Sequence[tuple[frozenset[int], Fraction]]
"""Set-up groups: their features, and their costs."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a configuration achieves: rows covered, right of them, and mean cost."""

    covered: int
    right: int
    cost: Fraction

    @property
    def accuracy(self) -> Fraction:
        return Fraction(self.right, self.covered) if self.covered else Fraction(0)

    def dominates(self, other: "Result") -> bool:
        """Tell whether this is at least as good in everything and better in something."""
        return self != other and self.weakly_dominates(other)

    def weakly_dominates(self, other: "Result") -> bool:
        return self.covered >= other.covered and self.accuracy >= other.accuracy and self.cost <= other.cost


def fractions(costs: Sequence[float]) -> list[Fraction]:
    """Take costs as the decimals that they are written as: what is equal as fractions is equal."""
    return [Fraction(repr(float(cost))) for cost in costs]


def walk(
    chromosome: Sequence[int],
    confident: Bools,
    correct: Bools,
    costs: Sequence[Fraction],
    *,
    answers: bool = False,
    groups: Groups = (),
) -> Result:
    """Send each row through the stages, one after the other.

    answers: whether the last stage must. groups: set-up groups, which the first stage that touches one pays for.
    """
    covered = right = 0
    paid = Fraction(0)
    for row in range(confident.shape[1]):
        known = 0
        for stage in range(max(chromosome) + 1):
            new = [i for i, gene in enumerate(chromosome) if gene == stage]
            paid += sum(costs[i] for i in new)
            paid += sum(cost for own, cost in groups if own.intersection(new) and not any(known >> i & 1 for i in own))
            known |= sum(1 << i for i in new)
            if confident[known, row] or (answers and stage == max(chromosome)):
                covered += 1
                right += bool(correct[known, row])
                break
    return Result(covered, right, paid / confident.shape[1])


def every_chromosome(n: int, k: int) -> Iterator[Chromosome]:
    """Go through all ordered partitions of n features into at most k stages, in lexicographic order."""
    for genes in itertools.product(range(k), repeat=n):
        if len(set(genes)) == max(genes) + 1:
            yield genes


def brute_force(
    confident: Bools, correct: Bools, costs: Floats, k: int, *, answers: bool = False, groups: Groups = ()
) -> dict[Chromosome, Result]:
    """Try all chromosomes; the front, of equals the one of fewest stages, then the first."""
    priced = fractions(costs.tolist())
    best: dict[Result, Chromosome] = {}
    for genes in sorted(every_chromosome(len(costs), k), key=lambda genes: (max(genes), genes)):
        best.setdefault(walk(genes, confident, correct, priced, answers=answers, groups=groups), genes)
    return {genes: result for result, genes in best.items() if not any(other.dominates(result) for other in best)}


def random_table(rng: np.random.Generator, n: int, rows: int) -> tuple[Bools, Bools]:
    """Draw what the classifiers of all feature sets accept and get right. Confidence grows with the worth of the
    features, and classifiers agree on what is hard, the more so the smaller ``noise``; sometimes they all agree."""
    savings = rng.random(n) * (rng.random(n) < 0.7)
    members = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1
    noise = float(rng.choice([0.0, 0.1, 0.5]))
    hardness, truth = rng.random(rows), rng.random(rows)
    strength = (members @ savings)[:, None] / max(savings.sum(), 1e-9)
    confident = strength + noise * rng.normal(size=(1 << n, rows)) > hardness * rng.uniform(0.5, 1.5)
    correct = 0.4 + 0.5 * strength + noise * rng.normal(size=(1 << n, rows)) > truth
    return confident, correct


def random_costs(rng: np.random.Generator, n: int) -> Floats:
    """Draw costs: all 0, all 1, few whole ones with zeros, decimals, or any numbers."""
    kinds = [
        np.zeros(n),
        np.ones(n),
        rng.integers(0, 4, n) / 1.0,
        rng.integers(1, 30, n) / 10,
        rng.uniform(0.5, 5, n),
    ]
    return np.asarray(kinds[rng.integers(5)], dtype=np.float64)
