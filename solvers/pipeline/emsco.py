"""EMSCO, an evolutionary multi-objective algorithm (Hamilton and Fulp, Sections 3.2 to 3.4, Algorithm 3).

``Emsco`` proposes chromosomes and receives their scores; ``evolve_front`` runs it in a loop.

**Property 1**: globally non-dominated chromosomes are never lost. A generation keeps one chromosome for each
non-dominated vector of objectives of the previous generation. So the last generation's front is the front of all
evaluated chromosomes, and no archive is needed. In the paper, all unique chromosomes can be elites. Then chromosomes
with equal objectives can fill the population and end the run early.

**Property 2**: the probability of selection rises with the rank and, within a rank, with the norm. Fitness is computed
in logarithms, rank · log gamma + log norm, since gamma to the power of the rank overflows. A norm is 0 if a chromosome
answers nothing and its normalized inverse cost is 0. The latter happens if another chromosome is free. The fitness is
then 0, and gamma is computed from the positive norms only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np

from models.arrays import Floats, Int8s, Int64s
from models.errors import Fault, InvalidRequest
from solvers.base import Progress, no_progress
from solvers.pipeline.configurations import MAX_FEATURES, MAX_STAGES, count_stages
from solvers.pipeline.objectives import ConfigurationScores
from solvers.pipeline.operators import draw_parents, mutate_genes, recombine_parents

Evaluate = Callable[[Int8s], ConfigurationScores]
"""Scores chromosomes, (c, n), always on the same rows."""


@dataclass(frozen=True, slots=True)
class EvolutionSettings:
    """Parameters of EMSCO; defaults are those of the paper for Pima (Table 4, Section 4.4.1).

    Attributes:
        population: size of a generation.
        mutation, recombination: probabilities.
        elite: b, the share of unique vectors of objectives that the next generation keeps, within (0, 1).
        beta: parameter of the distribution of mutated stages, above 0; larger values favor fewer stages.
        epsilon: above 0; gamma, the base of the rank weights (Eq. 9), exceeds its lower bound by this margin.
        generations: maximum number.
        patience: number of generations with the same fittest chromosome after which the search ends.
    """

    population: int = 300
    mutation: float = 0.075
    recombination: float = 0.8
    elite: float = 0.2
    beta: float = 2.0
    epsilon: float = 0.01
    generations: int = 150
    patience: int = 20

    def __post_init__(self) -> None:
        """Raise InvalidRequest for parameters out of range."""
        at_least = {"population": 2, "generations": 0, "patience": 1}
        faults = [
            Fault((name,), f"must be at least {least}, got {getattr(self, name)}")
            for name, least in at_least.items()
            if getattr(self, name) < least
        ]
        for name in ("mutation", "recombination"):
            if not 0 <= getattr(self, name) <= 1:
                faults.append(Fault((name,), f"must be from 0 to 1, got {getattr(self, name)}"))
        if not 0 < self.elite < 1:
            faults.append(Fault(("elite",), f"must be between 0 and 1, got {self.elite}"))
        for name in ("beta", "epsilon"):
            if not 0 < getattr(self, name) < np.inf:
                faults.append(Fault((name,), f"must be above 0 and finite, got {getattr(self, name)}"))
        if faults:
            raise InvalidRequest.from_faults(*faults)


@dataclass(frozen=True, slots=True, eq=False)
class RankedPopulation:
    """Chromosomes, (c, n), by decreasing fitness, with scores and ranks, (c,).

    The front has the highest rank.
    """

    chromosomes: Int8s
    scores: ConfigurationScores
    rank: Int64s
    log_fitness: Floats

    @classmethod
    def from_scores(cls, chromosomes: Int8s, scores: ConfigurationScores, epsilon: float) -> "RankedPopulation":
        """Rank a generation (Eq. 8 and 9). O(c² log c).

        Ties go to fewer stages, then to lexicographic order.
        """
        import moocore

        levels = moocore.pareto_rank(scores.stack_objectives(), maximise=True).astype(np.int64)
        rank, norms = levels.max() - levels, scores.compute_norms()
        order = np.lexsort((*chromosomes.T[::-1], count_stages(chromosomes), -norms, -rank))
        fitness = compute_log_fitness(rank, norms, epsilon)
        return cls(chromosomes[order], scores.take(order), rank[order], fitness[order])

    def find_unique(self) -> Int64s:
        """Return the indices of the fittest chromosome per objective vector, in order."""
        rows = np.ascontiguousarray(self.scores.stack_objectives())
        as_one = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize)))[:, 0]
        return np.sort(np.unique(as_one, return_index=True)[1])

    def take(self, indices: Int64s) -> "RankedPopulation":
        """Select chromosomes by index."""
        return RankedPopulation(
            self.chromosomes[indices], self.scores.take(indices), self.rank[indices], self.log_fitness[indices]
        )


def compute_log_fitness(rank: Int64s, norms: Floats, epsilon: float) -> Floats:
    """Return the logarithm of gamma^rank · norm (Eq. 9), -inf for norm 0.

    >>> np.exp(compute_log_fitness(np.array([1, 0]), np.array([1.0, 2.0]), 0.01)).round(6).tolist()
    [2.01, 2.0]
    """
    positive = norms[norms > 0]
    gamma = positive.max() / positive.min() + epsilon if len(positive) else 1.0
    with np.errstate(divide="ignore"):
        return np.asarray(rank * np.log(gamma) + np.log(norms))


class Emsco:
    """A run of EMSCO: evaluate proposed chromosomes and report their scores until ``halted`` is set.

    Args:
        features: n, at most 63.
        max_stages: k, reduced to n if larger.
        rng: random generator; equal states result in equal runs.
    Complexity: O(c² log c + c n) per generation of c, plus the evaluation.

    >>> from solvers.pipeline.objectives import ConfigurationScores
    >>> def evaluate(genes):
    ...     stages = genes.max(axis=1) + 1
    ...     return ConfigurationScores(10, 11 - stages, 9 - stages, 10.0 / stages)
    >>> run = Emsco(4, 3, EvolutionSettings(population=40, generations=15), np.random.default_rng(7))
    >>> while run.halted is None:
    ...     run.report_scores(evaluate(run.next_chromosomes()))
    >>> run.get_front().scores.cost.round(2).tolist(), run.halted
    ([3.33, 5.0, 10.0], 'generations')
    """

    def __init__(
        self,
        features: int,
        max_stages: int,
        settings: EvolutionSettings,
        rng: np.random.Generator,
    ) -> None:
        _check(features, max_stages, settings)
        self._features, self._stages = features, min(max_stages, features, MAX_STAGES)
        self._settings, self._rng = settings, rng
        self._elites: RankedPopulation | None = None
        self._fittest: Int8s | None = None
        self._same = 0
        # Algorithm 3, ``init``: mutations of the configuration of one stage
        self._proposed = self._mutate(np.zeros((settings.population, features), dtype=np.int8))
        self.generation = 0
        """Number of generations bred; 0 is the initial, random one."""
        self.halted: str | None = None
        """Reason for the end: ``generations``, ``population`` (none of it is dominated), or ``patience``."""
        self.current: RankedPopulation
        """The last reported generation."""

    def next_chromosomes(self) -> Int8s:
        """Return the chromosomes to evaluate next, (c, n), c at most the population."""
        return self._proposed

    def report_scores(self, scores: ConfigurationScores) -> None:
        """Receive the scores of the proposed chromosomes, and breed the next ones unless the run ends."""
        generation, epsilon = self._proposed, self._settings.epsilon
        if len(scores.cost) != len(generation):
            raise InvalidRequest.from_faults(Fault(("scores",), f"must be {len(generation)}, got {len(scores.cost)}"))
        if self._elites is not None:
            generation = np.concatenate((self._elites.chromosomes, generation))
            scores = self._elites.scores.append_scores(scores)
            self.generation += 1
        self.current = RankedPopulation.from_scores(generation, scores, epsilon)
        self._elites = self.select_elites()
        self.halted = self._halting_reason(len(self._elites.rank))
        if self.halted is None:
            self._proposed = self._breed(self._settings.population - len(self._elites.rank))

    def select_elites(self) -> RankedPopulation:
        """Return the fittest share b of unique vectors of objectives, but at least the whole front.

        Source: Section 3.2.2.
        """
        unique = self.current.find_unique()
        front = int(np.count_nonzero(self.current.rank[unique] == self.current.rank[0]))
        return self.current.take(unique[: max(ceil(self._settings.elite * len(unique)), front)])

    def get_front(self) -> RankedPopulation:
        """Return the non-dominated chromosomes of the whole run, by decreasing fitness.

        Of chromosomes with equal objectives, the one with the fewest stages is kept, then the first in lexicographic
        order.
        """
        import moocore

        best = np.flatnonzero(self.current.rank == self.current.rank[0])
        kept = moocore.is_nondominated(self.current.scores.stack_objectives()[best], maximise=True, keep_weakly=False)
        return self.current.take(best[kept])

    def _breed(self, count: int) -> Int8s:
        genes = self.current.chromosomes
        parents = draw_parents(self.current.log_fitness, 2 * count, self._rng)
        children = recombine_parents(
            genes[parents[:count]], genes[parents[count:]], self._settings.recombination, self._rng
        )
        return self._mutate(children)

    def _mutate(self, genes: Int8s) -> Int8s:
        using = self._settings
        return mutate_genes(genes, using.mutation, self._stages, using.beta, self._rng)

    def _halting_reason(self, elites: int) -> str | None:
        """Return the reason to halt by the three rules of Section 3.4; None to continue."""
        fittest = self.current.chromosomes[0]
        same = self._fittest is not None and np.array_equal(fittest, self._fittest)
        self._same, self._fittest = self._same + 1 if same else 0, fittest
        if elites >= self._settings.population:
            return "population"
        if self._same >= self._settings.patience:
            return "patience"
        return "generations" if self.generation >= self._settings.generations else None


def _check(features: int, max_stages: int, settings: EvolutionSettings) -> None:
    if not 1 <= features <= MAX_FEATURES:
        raise InvalidRequest.from_faults(Fault(("features",), f"must be from 1 to {MAX_FEATURES}, got {features}"))
    if max_stages < 1:
        raise InvalidRequest.from_faults(Fault(("max_stages",), f"must be at least 1, got {max_stages}"))


@dataclass(frozen=True, slots=True, eq=False)
class EvolutionResult:
    """Result of a run: front, number of generations, number of evaluated chromosomes, and halting reason."""

    front: RankedPopulation
    generations: int
    evaluated: int
    halted: str


def evolve_front(
    evaluate: Evaluate,
    features: int,
    max_stages: int,
    settings: EvolutionSettings,
    rng: np.random.Generator,
    *,
    progress: Progress = no_progress,
) -> EvolutionResult:
    """Run EMSCO to its end; ``progress`` may raise to cancel."""
    run = Emsco(features, max_stages, settings, rng)
    evaluated, halted = 0, None
    while halted is None:
        proposed = run.next_chromosomes()
        run.report_scores(evaluate(proposed))
        progress(run.generation, settings.generations, "generations")
        evaluated += len(proposed)
        halted = run.halted
    return EvolutionResult(run.get_front(), run.generation, evaluated, halted)
