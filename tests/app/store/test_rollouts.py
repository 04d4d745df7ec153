"""Rollouts in the store: evidence, promotions, aborts, and all that ends a rollout otherwise."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import uuid4

import pytest

from app.store.artifact_records import ROLLOUTS
from app.store.client import Pipeline
from app.store.pointers import POINTERS
from app.store.repositories import Repositories
from app.store.rollouts import Observations, StoredRollout, make_start_event
from models.errors import UnknownRollout
from models.rollout import Abort, Promotion, RolloutRequest
from solvers.rollout_evidence import RolloutEvidence, ShadowDecision
from tests.support import stored

ARTIFACT = ("cascade", "plan")
BETTER = [*([(1, 1.0), (1, 0.0)] * 150), *([(2, 1.0)] * 300)]
"""Half of the active version's answers are correct, and all of the candidate's."""
WORSE = [*([(1, 1.0)] * 300), *([(2, 1.0), (2, 0.0)] * 150)]
CHEAPER = [*([(1, 4.0)] * 300), *([(2, 2.0)] * 300)]


@pytest.fixture
def versions(repos: Repositories) -> Repositories:
    for seed in (0, 1):
        stored.publish(repos, "plan", seed=seed)
    repos.artifacts.activate(*ARTIFACT, 1)
    return repos


def start(repos: Repositories, **changes: object) -> StoredRollout:
    rules = RolloutRequest(version=2, share=0.5, promote=Promotion(), **changes)  # type: ignore[arg-type]
    rollout = StoredRollout(
        id=uuid4().hex,
        active_version=1,
        sha256=repos.artifacts.get_record(*ARTIFACT, 2).sha256,
        rules=rules,
        mode=rules.mode,
        status="running",
        unit="ms",
        cost_bound=10.0,
        evidence=RolloutEvidence(),
        events=(make_start_event("anonymous", rules),),
        senders={},
    )
    repos.rollouts.start_rollout(ARTIFACT, rollout)
    return rollout


def observe(repos: Repositories, **observed: object) -> StoredRollout:
    repos.rollouts.add_observations({ARTIFACT: Observations(**observed)})  # type: ignore[arg-type]
    return repos.rollouts.get(ARTIFACT)


def active(repos: Repositories) -> int:
    return repos.artifacts.get_record(*ARTIFACT).version


def test_a_rollout_that_is_started_again_keeps_its_evidence(versions: Repositories) -> None:
    rollout = start(versions)
    observe(versions, accuracies=BETTER[:20])
    assert not versions.rollouts.start_rollout(ARTIFACT, rollout)
    assert versions.rollouts.get(ARTIFACT).to_reply(ARTIFACT).accuracy.active.outcomes == 20
    versions.rollouts.start_rollout(ARTIFACT, replace(rollout, id="second"))
    assert versions.rollouts.get(ARTIFACT).to_reply(ARTIFACT).accuracy.active.outcomes == 0


def test_a_better_candidate_is_promoted_with_the_evidence(versions: Repositories) -> None:
    start(versions)
    rollout = observe(versions, accuracies=BETTER)
    assert (rollout.status, active(versions)) == ("promoted", 2)
    assert [one.event for one in rollout.events] == ["started", "promoted"]
    assert rollout.events[-1].by == "test"
    reply = rollout.to_reply(ARTIFACT)
    assert (reply.accuracy.active.mean, reply.accuracy.candidate.mean, reply.accuracy.difference) == (0.5, 1.0, 0.5)
    assert reply.accuracy.difference_interval is not None
    assert -0.01 < reply.accuracy.difference_interval[0] < 0.5 < reply.accuracy.difference_interval[1]
    assert (reply.accuracy.promote_evidence or 0.0) > 20
    again = observe(versions, accuracies=WORSE)
    assert again == rollout


def test_a_worse_candidate_is_aborted(versions: Repositories) -> None:
    start(versions)
    rollout = observe(versions, accuracies=WORSE)
    assert (rollout.status, active(versions)) == ("aborted", 1)


def test_a_candidate_that_only_fails_is_aborted_without_feedback(versions: Repositories) -> None:
    """Failures count as answers of quality 0, but answers have no quality without feedback."""
    start(versions)
    fails = {"answered": [(1, 1.0)] * 60 + [(2, 0.0)] * 60, "accuracies": [(2, 0.0)] * 60}
    rollout = observe(versions, **fails)
    assert (rollout.status, rollout.evidence.accuracy.difference.count) == ("aborted", 0)
    reply = rollout.to_reply(ARTIFACT).answered
    assert (reply.active.mean, reply.candidate.mean) == (1.0, 0.0)
    assert reply.abort_evidence is not None
    assert reply.abort_evidence >= 40


def test_versions_that_fail_alike_are_not_aborted(versions: Repositories) -> None:
    start(versions)
    alike = [(1, 0.0), (2, 0.0), (1, 1.0), (2, 1.0)] * 200
    assert observe(versions, answered=alike).status == "running"


def test_equal_versions_are_neither_promoted_nor_aborted(versions: Repositories) -> None:
    start(versions)
    rollout = observe(versions, accuracies=[(1 + k % 2, float(k % 4 < 2)) for k in range(400)])
    assert (rollout.status, active(versions)) == ("running", 1)


def test_a_saving_that_is_required_must_be_proved(versions: Repositories) -> None:
    rules = {"promote": Promotion(min_saving=0.2)}
    start(versions)
    rollout = versions.rollouts.get(ARTIFACT)
    versions.rollouts.start_rollout(
        ARTIFACT, replace(rollout, id="second", rules=rollout.rules.model_copy(update=rules))
    )
    assert observe(versions, accuracies=BETTER).status == "running"
    assert observe(versions, run_costs=[(1, 4.0), (2, 3.9)] * 200).status == "running"
    ended = observe(versions, run_costs=CHEAPER * 3)
    assert (ended.status, active(versions)) == ("promoted", 2)
    assert ended.to_reply(ARTIFACT).cost.difference == pytest.approx((3.9 * 200 + 2 * 900) / 1100 - 4)


def test_costs_above_the_bound_prove_nothing(versions: Repositories) -> None:
    rollout = start(versions)
    rules = rollout.rules.model_copy(update={"promote": Promotion(min_saving=0.2)})
    versions.rollouts.start_rollout(ARTIFACT, replace(rollout, id="second", rules=rules))
    observe(versions, run_costs=[(2, 10.5)])
    rollout = observe(versions, accuracies=BETTER, run_costs=CHEAPER * 3)
    assert (rollout.status, rollout.evidence.costs_above_bound) == ("running", 1)


@pytest.mark.parametrize(("expensive", "status"), [(2, "aborted"), (1, "running")])
def test_costs_above_the_bound_abort_if_none_is_of_the_active_version(
    versions: Repositories, expensive: int, status: str
) -> None:
    start(versions, abort=Abort(max_extra_cost=0.5))
    rollout = observe(versions, run_costs=[(expensive, 1e6), *[(1, 1.0), (2, 1e6)] * 300])
    assert (rollout.status, rollout.evidence.costs_above_bound) == (status, 301)


def test_higher_costs_abort(versions: Repositories) -> None:
    start(versions, abort=Abort(max_extra_cost=0.5))
    rollout = observe(versions, run_costs=[*([(1, 2.0)] * 300), *([(2, 6.0)] * 300)])
    assert (rollout.status, active(versions)) == ("aborted", 1)


def test_costs_of_one_source_count(versions: Repositories) -> None:
    start(versions)
    observe(versions, run_costs=[(1, 2.0), (2, 2.0)])
    rollout = observe(versions, feedback_costs=[(1, 9.0), (2, 9.0)])
    cost = rollout.to_reply(ARTIFACT).cost
    assert (cost.active.outcomes, rollout.evidence.cost_source) == (1, "runs")
    assert cost.active.mean == pytest.approx(2.0)


def test_a_batch_that_is_sent_twice_counts_once(versions: Repositories) -> None:
    start(versions)
    for number in (1, 1, 2, 1):
        rollout = observe(versions, accuracies=[(1, 1.0)], sender=("server", number))
    assert (rollout.evidence.accuracy.active.count, rollout.senders) == (2, {"server": 2})


def test_observations_of_an_earlier_rollout_do_not_count(versions: Repositories) -> None:
    started = start(versions)
    observe(versions, accuracies=[(1, 1.0)], rollout="earlier")
    rollout = observe(versions, accuracies=[(1, 1.0)], rollout=started.id)
    assert rollout.evidence.accuracy.active.count == 1


def test_a_shadow_becomes_a_canary_after_enough_decisions(versions: Repositories) -> None:
    start(versions, mode="shadow")
    same, other = ShadowDecision(differs=False, costs=(4.0, 2.0)), ShadowDecision(differs=True, costs=None)
    observe(versions, accuracies=BETTER)
    rollout = observe(versions, shadow=[same] * 900 + [other] * 99)
    assert (rollout.mode, rollout.evidence.accuracy.active.count) == ("shadow", 0)
    rollout = observe(versions, shadow=[other])
    shadow = rollout.to_reply(ARTIFACT).shadow
    assert (rollout.mode, rollout.status, rollout.events[-1].event) == ("canary", "running", "canary")
    assert (shadow.decisions, shadow.differing) == (1000, 100)
    assert shadow.active_cost == pytest.approx(4.0)
    assert shadow.candidate_cost == pytest.approx(2.0)


def test_a_shadow_with_errors_stays_one(versions: Repositories) -> None:
    start(versions, mode="shadow")
    failed = ShadowDecision(differs=None, costs=None)
    rollout = observe(versions, shadow=[ShadowDecision(differs=False, costs=None)] * 2000 + [failed])
    assert (rollout.mode, rollout.evidence.shadow.errors) == ("shadow", 1)


def test_an_activation_ends_a_rollout(versions: Repositories) -> None:
    start(versions)
    versions.artifacts.activate(*ARTIFACT, 2)
    assert observe(versions).status == "promoted"
    versions.artifacts.activate(*ARTIFACT, 1)
    start(versions)
    stored.publish(versions, "plan", seed=2)
    rollout = observe(versions, accuracies=BETTER)
    assert (rollout.status, rollout.evidence.accuracy.active.count, active(versions)) == ("stopped", 0, 3)


def test_a_rollout_whose_candidate_was_deleted_is_stopped(versions: Repositories) -> None:
    start(versions)
    versions.artifacts.delete(*ARTIFACT, 2)
    assert observe(versions, accuracies=BETTER).status == "stopped"
    assert active(versions) == 1


def test_a_version_that_is_deleted_during_its_promotion_is_not_promoted(versions: Repositories) -> None:
    start(versions)
    deletions = ["first attempt"]

    def change(pipe: Pipeline) -> None:
        queue = versions.rollouts.read_for_update(pipe, {ARTIFACT: Observations(accuracies=BETTER)})
        while deletions:
            deletions.pop()
            versions.artifacts.delete(*ARTIFACT, 2)
        pipe.multi()
        queue(pipe)

    versions.store.run_transaction(change, ROLLOUTS, POINTERS)
    assert (versions.rollouts.get(ARTIFACT).status, active(versions)) == ("stopped", 1)


def test_a_rollout_goes_with_its_artifact(versions: Repositories) -> None:
    start(versions)
    versions.artifacts.delete_all(*ARTIFACT)
    with pytest.raises(UnknownRollout):
        versions.rollouts.get(ARTIFACT)
    with pytest.raises(UnknownRollout):
        versions.rollouts.stop_rollout(ARTIFACT, "anonymous")


def test_a_stopped_rollout_takes_no_more_evidence(versions: Repositories) -> None:
    start(versions)
    assert versions.rollouts.stop_rollout(ARTIFACT, "0123abcd").events[-1].by == "0123abcd"
    assert observe(versions, accuracies=BETTER).status == "stopped"
    assert active(versions) == 1


def test_unreadable_records_are_left_out(versions: Repositories) -> None:
    start(versions)
    versions.store.client.hset(ROLLOUTS, "cascade/other", b"{")
    assert list(versions.rollouts.get_all()) == [ARTIFACT]


def test_no_evidence_is_lost_among_concurrent_writers(versions: Repositories) -> None:
    start(versions)

    def write(writer: int) -> None:
        for number in range(1, 21):
            observe(versions, accuracies=[(1, 1.0), (2, 1.0)], sender=(str(writer), number))

    with ThreadPoolExecutor(4) as writers:
        list(writers.map(write, range(4)))
    evidence = versions.rollouts.get(ARTIFACT).evidence
    assert (evidence.accuracy.active.count, evidence.accuracy.difference.count) == (80, 80)
