"""The main job on real input, in parts: cascades of classifiers, an index of features, a portfolio for batches,
a pipeline of stages, a policy for one image at a time.

Each part measures on this machine, builds what the service then serves, and really does what the artifacts decide.
``run_demo`` does all of it in this process; ``prepare_demo`` measures, and lets the service's worker build.
"""

import time

import numpy as np

from app import terminal
from app.building.worker import build_locally
from app.demo import cascade, index, pipeline, policy, portfolio
from app.demo.images import SEED, load_split
from app.demo.stage import Part, Stage
from app.demo.timing import quiet_machine
from app.store.builds import checked_request
from app.store.repositories import Repositories
from models import ArtifactRecord, Build, BuildRequest
from models.errors import ParsimonyError
from solvers import Progress, no_progress

PARTS: tuple[Part, ...] = (pipeline, cascade, index, portfolio, policy)
"""First the one that needs no measuring: there is something to look at within seconds. Portfolio and policy look
at what the part of the cascades has stored."""


def run_demo(repos: Repositories, *, if_missing: bool, as_json: bool) -> None:
    """Do all of it, or what is missing, and print the tables."""
    wanted = [part for part in PARTS if not if_missing or missing(repos, part)]
    if not wanted:
        terminal.get_console(stderr=True).print("the demo's artifacts are there")
        return
    with terminal.progress_bar("demo") as progress, quiet_machine():
        stage = Stage(load_split(np.random.default_rng(SEED)))
        outcomes, every = [], list[ArtifactRecord]()
        for part in wanted:
            part.store(repos, stage, progress)
            records = [_built(repos, request, progress) for request in part.REQUESTS]
            outcomes.append(part.run(repos, records, stage, progress))
            every += records
    savings = {f"{each.kind} {each.name}": each.savings for each in every if each.savings is not None}
    if as_json:
        facts = {name: fact for outcome in outcomes for name, fact in outcome.facts().items()}
        terminal.print_json(facts | {"savings": {name: each.model_dump(mode="json") for name, each in savings.items()}})
        return
    for outcome in outcomes:
        outcome.print()
    rows = [(name, each.headline) for name, each in savings.items()]
    terminal.print_table("what each is worth", ["artifact", "beside what you could do without it"], rows)


def missing(repos: Repositories, part: Part) -> list[BuildRequest]:
    """List what a part has yet to build."""
    return [request for request in part.REQUESTS if not repos.artifacts.has_artifact(request.kind, request.name)]


def _built(repos: Repositories, request: BuildRequest, progress: Progress) -> ArtifactRecord:
    progress(0, 0, f"building {request.kind} {request.name}")
    return build_locally(repos, request, checked_request(request)[1], no_progress)


def prepare_demo(repos: Repositories, progress: Progress) -> list[Build]:
    """Store the datasets of what is missing and queue its builds, which a worker then does; give the builds under way.

    What is queued or stored already, by a service that was stopped in between, is not made again.
    """
    asked = {(request.kind, request.name) for part in PARTS for request in part.REQUESTS}
    open_builds = [build for build in repos.builds.list_unended() if (build.kind, build.name) in asked]
    waiting = {(build.kind, build.name) for build in open_builds}
    stored = {info.name for info in repos.datasets.get_infos()}
    stage = Stage(load_split(np.random.default_rng(SEED)))
    queued = open_builds
    for part in PARTS:
        wanted = [each for each in missing(repos, part) if (each.kind, each.name) not in waiting]
        if wanted and part.DATASET not in stored:
            with quiet_machine():
                part.store(repos, stage, progress)
        queued += [repos.builds.enqueue_build(request) for request in wanted]
    return queued


def follow(repos: Repositories, builds: list[Build], progress: Progress) -> None:
    """Tell how many of the demo's builds have ended, until all have; raises ParsimonyError if some made nothing."""
    while not all(build.ended for build in builds):
        builds = [repos.builds.get(build.id) for build in builds]
        running = [f"{build.kind} {build.name}" for build in builds if build.status == "running"]
        ended = sum(build.ended for build in builds)
        progress(ended, len(builds), f"building {', '.join(running) or 'in the worker'}")
        time.sleep(0.5)
    lacking = [build for build in builds if build.status != "succeeded"]
    if lacking:
        raise ParsimonyError("; ".join(f"{each.kind} {each.name}: {each.error or each.status}" for each in lacking))
