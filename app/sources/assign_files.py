"""Assignment of queries in Parquet files, larger than memory, within one budget.

Estimates are computed in batches and kept in a temporary file next to the output. It has 4 bytes per query and
classifier, or 12 if costs depend on the query. The solver then reads the file in parts.
"""

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from app.sources.locations import find_files
from app.sources.scan import BATCH_ROWS, open_parquet
from app.store.query_tables import EMBEDDING, TEXT, read_columns
from models.conversation import read_conversation
from models.errors import Fault, InvalidRequest
from models.portfolio import AssignmentOptions, BatchBudget
from models.word_embedding import WORDS, embed_prompts
from solvers import Progress
from solvers.portfolio.large_batch import MAX_PASSES, LargeBatch, assign_large
from solvers.portfolio.plan import PortfolioPlan


@dataclass(frozen=True, slots=True)
class FilesAssignment:
    """Figures of an assignment of files.

    Totals are in the artifact's unit. Durations of steps are in seconds.
    """

    queries: int
    budget: float
    cost: float
    estimated_accuracy: float
    gap: float
    price: float
    usage: dict[str, int]
    estimate_s: float
    solve_s: float


def assign_files(
    plan: PortfolioPlan, params: Mapping[str, Any], url: str, limits: BatchBudget, output: Path, progress: Progress
) -> FilesAssignment:
    """Assign the queries of Parquet files within a budget, and write a Parquet file.

    The output has query numbers and classifiers.

    Args:
        params: the artifact's parameters; to assign texts, the embedder must be the built-in one.
        url: a file, a folder, or a pattern, as for datasets by reference.
        limits: budget or budget_total.
    Raises:
        InvalidRequest: budget and budget_total are missing, or a file is malformed.
        Infeasible: the budget is less than the cheapest assignment.
    """
    found = [each.url for each in find_files(url)]
    rows = sum(_count_rows(each) for each in found)
    if not limits.has_budget:
        raise InvalidRequest.from_faults(Fault(("budget",), "is required, or budget_total"))
    plan.check_feasibility(rows, AssignmentOptions(**dict(limits)))
    with tempfile.TemporaryDirectory(prefix=".parsimony-", dir=output.parent) as folder:
        started = time.monotonic()
        estimates, costs = _estimate(plan, params, found, rows, Path(folder), progress)
        estimated = time.monotonic()
        batch = LargeBatch(estimates, costs, plan.penalize_estimates(np.zeros((1, len(plan.classifiers))))[0])
        least, embedding_cost = batch.measure_least_cost(), rows * plan.embedding_cost
        total = plan.check_total_budget(limits, rows, least + embedding_cost)
        # Selection makes costs exceed predictions by about a percent.
        overrun = 0.0 if len(costs) == 1 else rows * plan.estimate_cost_overrun("batch", total / rows)[0]
        room = max(total - overrun - embedding_cost, least)
        solution = assign_large(batch, room, lambda done: progress(done, MAX_PASSES, "finding the shadow price"))
        _write(output, plan.classifiers, solution.choice)
        counts = np.bincount(solution.choice, minlength=len(plan.classifiers))
        raw = _sum_chosen(estimates, solution.choice) / rows
    return FilesAssignment(
        queries=rows,
        budget=total,
        cost=solution.cost + embedding_cost + overrun,
        estimated_accuracy=plan.correct_accuracy(raw, counts, total / rows),
        gap=solution.gap,
        price=solution.price,
        usage=dict(zip(plan.classifiers, counts.tolist(), strict=True)),
        estimate_s=estimated - started,
        solve_s=time.monotonic() - estimated,
    )


def _count_rows(url: str) -> int:
    with open_parquet(url) as parquet:
        return int(parquet.metadata.num_rows)


def _estimate(
    plan: PortfolioPlan, params: Mapping[str, Any], urls: Sequence[str], rows: int, folder: Path, progress: Progress
) -> tuple[Any, Any]:
    """Return memory-mapped estimates, (n, m), and costs, (n, m) or (1, m)."""
    shape = (rows, len(plan.classifiers))
    estimates = np.lib.format.open_memmap(folder / "estimates.npy", "w+", np.float32, shape)
    costs: Any = plan.costs[None, :]
    first = 0
    for columns in _batches(urls):
        vectors = _vectors(columns, params)
        own = slice(first, first + len(vectors))
        estimates[own] = plan.estimate(vectors)
        expected = plan.predict_costs(vectors)
        if expected is not None:
            if len(costs) == 1:
                costs = np.lib.format.open_memmap(folder / "costs.npy", "w+", np.float64, shape)
            costs[own] = expected
        first = own.stop
        progress(first, rows, "estimating")
    return estimates, costs


def _batches(urls: Sequence[str]) -> Iterator[dict[str, Any]]:
    for url in urls:
        with open_parquet(url) as parquet:
            for batch in parquet.iter_batches(batch_size=BATCH_ROWS):
                yield read_columns(pa.Table.from_batches([batch]))


def _vectors(columns: dict[str, Any], params: Mapping[str, Any]) -> Any:
    """Return the embeddings of a batch of queries."""
    other = next((name for name in columns if name not in (EMBEDDING, TEXT)), None)
    if other is not None:
        message = "is not supported in files of any size; use portfolio assign for up to a few million queries"
        raise InvalidRequest.from_faults(Fault(("queries", other), message))
    if EMBEDDING in columns:
        return columns[EMBEDDING]
    if (embedder := params.get("embedder")) != WORDS:
        message = f"requires an artifact with the embedder {WORDS}, got {embedder or 'none'}; embed the texts first"
        raise InvalidRequest.from_faults(Fault(("queries", TEXT), message))
    return embed_prompts(columns[TEXT], read_conversation(params))


def _sum_chosen(estimates: NDArray[np.float32], choice: NDArray[np.uint8]) -> float:
    total = 0.0
    for first in range(0, len(choice), BATCH_ROWS):
        own = choice[first : first + BATCH_ROWS]
        total += float(estimates[first : first + BATCH_ROWS][np.arange(len(own)), own].sum(dtype=np.float64))
    return total


def _write(output: Path, classifiers: Sequence[str], choice: NDArray[np.uint8]) -> None:
    """Write query numbers, counted from 1, and classifiers.

    The file appears when it is complete.
    """
    unfinished = output.with_name(f".{output.name}.unfinished")
    names = pa.array(classifiers, pa.string())
    kind = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([("query", pa.int64()), ("classifier", kind)])
    with pa.parquet.ParquetWriter(unfinished, schema) as writer:
        for first in range(0, len(choice), 10 * BATCH_ROWS):
            own = choice[first : first + 10 * BATCH_ROWS]
            codes = pa.DictionaryArray.from_arrays(pa.array(own.astype(np.int32)), names)
            writer.write_table(pa.table([np.arange(first + 1, first + len(own) + 1), codes], schema=schema))
    unfinished.replace(output)
