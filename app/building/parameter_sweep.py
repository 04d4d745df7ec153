"""EMSCO's parameters, tried on a dataset of the store."""

from typing import Any

import numpy as np

from app.building.worker import training_on
from app.store.builds import check_dataset, checked_request
from app.store.repositories import Repositories
from models import BuildRequest, FeatureTable
from models.pipeline import PipelineOptions
from solvers import Progress, Run
from solvers.pipeline.fit import sweep_parameters

SWEPT = ("population", "mutation", "recombination", "elite", "beta")


def sweep_dataset(
    repos: Repositories, request: BuildRequest, runs: int, most: int | None, progress: Progress
) -> dict[str, Any]:
    """Try the paper's grid, or so many combinations of it: those tried, the best score first, and which to take."""
    solver, options = checked_request(request)
    info = repos.datasets.info(request.dataset)
    check_dataset(solver, options, request.dataset, info.model_dump_json().encode())
    dataset = repos.datasets.load(info)
    assert isinstance(dataset, FeatureTable)
    assert isinstance(options, PipelineOptions)
    run = Run(progress, learner_modules=repos.settings.allowed_modules())
    with training_on(repos.settings.dask_scheduler):
        grid = sweep_parameters(dataset, options, np.random.default_rng(request.seed), run, runs=runs, most=most)
    rows = [
        {**{name: getattr(settings, name) for name in SWEPT}, "score": score}
        for settings, score in zip(grid.settings, grid.scores.tolist(), strict=True)
    ]
    rows.sort(key=lambda row: -row["score"])
    return {"best": {name: getattr(grid.best, name) for name in SWEPT}, "tried": rows}
