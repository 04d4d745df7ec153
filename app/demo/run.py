"""Builds the demo's artifacts, and checks their estimates on unseen rows."""

import time
from dataclasses import dataclass
from typing import Any

from app import terminal
from app.building.run_build import build_locally
from app.demo.demo_datasets import PARTS, DemoDataset, DigitExperiment
from app.processes.clock import current_timestamp
from app.serving.catalog import LoadedArtifact
from app.serving.evaluation import evaluate_in_batches, summarize_evaluation
from app.store.builds import validate_build_request
from app.store.repositories import Repositories
from models import ArtifactRecord, Build, BuildRequest
from models.errors import ParsimonyError
from models.evaluation import EvaluationSummary
from models.savings import Savings
from solvers import Progress, no_progress
from solvers.base import IN_PROCESS


@dataclass(frozen=True, slots=True)
class DemoArtifactResult:
    """An artifact, its savings on holdout rows, and its results on unseen rows."""

    record: ArtifactRecord
    savings: Savings
    unseen: EvaluationSummary

    def to_table_row(self) -> tuple[str, ...]:
        """Return the texts of a row of the printed summary table."""
        savings, unseen = self.savings, self.unseen
        accuracy = (unseen.accuracy or 0.0) * unseen.coverage
        return (
            f"{self.record.kind} {self.record.name}",
            savings.brief,
            f"{1000 * savings.cost:,.3g} {savings.unit}",
            f"{1000 * unseen.cost:,.3g} {savings.unit}",
            f"{savings.accuracy:.1%}",
            f"{accuracy:.1%}",
        )


COLUMNS = ("artifact", "on holdout rows", "per 1,000", "unseen", "correct", "unseen")


def run_demo(repos: Repositories, *, if_missing: bool, as_json: bool) -> None:
    """Build all or missing artifacts; print estimated and actual results."""
    wanted = [part for part in PARTS if not if_missing or list_missing_builds(repos, part)]
    if not wanted:
        terminal.get_console(stderr=True).print("the demo's artifacts are there")
        return
    checked = list[DemoArtifactResult]()
    with terminal.progress_bar("demo") as progress:
        world = DigitExperiment()
        for part in wanted:
            repos.datasets.put(
                part.dataset, part.make(world, progress, False).to_dataset(), created_at=current_timestamp()
            )
            records = [_build(repos, request, progress) for request in part.requests]
            checked += _check(repos, part, records, world, progress)
    if as_json:
        terminal.print_json([_as_json(each) for each in checked])
        return
    terminal.print_table("savings, and the same on unseen rows", COLUMNS, [each.to_table_row() for each in checked])


def _build(repos: Repositories, request: BuildRequest, progress: Progress) -> ArtifactRecord:
    progress(0, 0, f"building {request.kind} {request.name}")
    return build_locally(repos, request, validate_build_request(request)[1], no_progress)


def _check(
    repos: Repositories, part: DemoDataset, records: list[ArtifactRecord], world: DigitExperiment, progress: Progress
) -> list[DemoArtifactResult]:
    """Evaluate artifacts at their default operating points on unseen rows."""
    items, checked = part.make(world, progress, True).to_items(), []
    for record in records:
        progress(0, 0, f"checking {record.kind} {record.name} on {len(items):,} unseen rows")
        loaded = LoadedArtifact.from_record(record, repos.artifacts.load_plan(record))
        found = [each for some in evaluate_in_batches(loaded, loaded.kind.limits(), items, IN_PROCESS) for each in some]
        if record.savings is not None:
            checked.append(DemoArtifactResult(record, record.savings, summarize_evaluation(found, ())))
    return checked


def _as_json(checked: DemoArtifactResult) -> dict[str, Any]:
    return {
        "kind": checked.record.kind,
        "name": checked.record.name,
        "savings": checked.savings.model_dump(mode="json"),
        "unseen": checked.unseen.model_dump(mode="json"),
    }


def list_missing_builds(repos: Repositories, part: DemoDataset) -> list[BuildRequest]:
    """List the builds of a part whose artifact is missing."""
    return [request for request in part.requests if not repos.artifacts.has_artifact(request.kind, request.name)]


def prepare_demo(repos: Repositories, world: DigitExperiment, progress: Progress) -> list[Build]:
    """Store missing datasets, and queue missing builds with low priority.

    The user's builds have priority. Datasets and builds of an interrupted demo are not repeated.

    Returns:
        The queued and running builds.
    """
    names = {(request.kind, request.name) for part in PARTS for request in part.requests}
    queued = [build for build in repos.builds.list_unended() if (build.kind, build.name) in names]
    waiting = {(build.kind, build.name) for build in queued}
    stored = {info.name for info in repos.datasets.get_infos()}
    for part in PARTS:
        wanted = [each for each in list_missing_builds(repos, part) if (each.kind, each.name) not in waiting]
        if wanted and part.dataset not in stored:
            table = part.make(world, progress, False)
            repos.datasets.put(part.dataset, table.to_dataset(), created_at=current_timestamp())
        queued += [repos.builds.enqueue_build(request, in_background=True) for request in wanted]
    return queued


def follow_builds(repos: Repositories, builds: list[Build], progress: Progress) -> None:
    """Report progress until all builds have ended; raises ParsimonyError on failures."""
    while not all(build.ended for build in builds):
        builds = [repos.builds.get(build.id) for build in builds]
        running = [f"{build.kind} {build.name}" for build in builds if build.status == "running"]
        ended = sum(build.ended for build in builds)
        progress(ended, len(builds), f"building {', '.join(running) or 'in the worker'}")
        time.sleep(0.5)
    failed = [build for build in builds if build.status != "succeeded"]
    if failed:
        raise ParsimonyError("; ".join(f"{each.kind} {each.name}: {each.error or each.status}" for each in failed))
