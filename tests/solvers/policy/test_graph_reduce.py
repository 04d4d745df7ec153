"""Graph reduce against exact dynamic programming, plain simulation, and its own definition on one node."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.policy.graph import Graph
from solvers.policy.graph_reduce import compute_action_costs, reduce_graph
from tests.oracles.policy import least_loss, look_up, made, simulate

TRADEOFFS = np.array([0.0, 0.3, 1.0, 5.0])


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 3))
def test_with_a_look_up_table_it_is_exact_dynamic_programming(seed: int, sensors: int, levels: int) -> None:
    """No rule that decides by what is known loses less, whatever losses and costs each item has."""
    table, graph = made(np.random.default_rng(seed), 12, sensors, levels), Graph.all_subsets(sensors)
    chosen = reduce_graph(graph, table.losses, table.costs, TRADEOFFS, look_up(table, graph))
    for at, tradeoff in enumerate(TRADEOFFS.tolist()):
        reached = simulate(graph, table, chosen, at, tradeoff).mean()
        assert reached == pytest.approx(least_loss(table, tradeoff), abs=1e-5)


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_the_cost_to_go_is_what_a_simulation_pays_from_there(seed: int, sensors: int) -> None:
    """The weights of the first node's actions are what rows pay that take them and then follow the policies learned."""
    rng = np.random.default_rng(seed)
    table, graph = made(rng, 9, sensors, 3), Graph.all_subsets(sensors)
    seen: dict[int, np.ndarray] = {}

    def at_random(nodes: object, weights: object) -> list[np.ndarray]:
        payments = []
        for node, weight in zip(nodes, weights, strict=True):  # type: ignore[call-overload]
            seen[node] = weight
            payments.append(rng.integers(weight.shape[1], size=(weight.shape[0], weight.shape[2])).astype(np.int16))
        return payments

    chosen = reduce_graph(graph, table.losses, table.costs, TRADEOFFS, at_random)
    for action in range(seen[0].shape[1]):
        forced = [np.full_like(chosen[0], action), *chosen[1:]]
        for at, tradeoff in enumerate(TRADEOFFS.tolist()):
            paid = simulate(graph, table, forced, at, tradeoff)
            assert seen[0][:, action, at] == pytest.approx(paid, abs=1e-5)


def test_a_node_before_leaves_alone_is_a_cost_sensitive_problem_with_the_transition_costs() -> None:
    """Lemma 2.1: its risk under any policy is the mean of the weights that the policy picks."""
    rng = np.random.default_rng(4)
    losses, costs, tradeoffs = rng.random((2, 30)), rng.random((30, 1)), np.array([0.7])
    graph = Graph.all_subsets(1)
    to_go = [np.empty((0, 0), dtype=np.float32), losses[1][:, None].astype(np.float32)]
    weights = compute_action_costs(graph, 0, losses, costs, tradeoffs, to_go)
    for policy in (np.zeros(30, int), np.ones(30, int), rng.integers(2, size=30)):
        risk = np.where(policy == 1, losses[1] + 0.7 * costs[:, 0], losses[0]).mean()
        assert weights[np.arange(30), policy, 0].mean() == pytest.approx(risk, abs=1e-6)
    chosen = reduce_graph(graph, losses, costs, tradeoffs, lambda _, w: [each.argmin(axis=1) for each in w])
    assert np.array_equal(chosen[0][:, 0], weights[:, :, 0].argmin(axis=1))


def test_layers_of_unions_lead_only_into_layers_done_before() -> None:
    graph = Graph.from_steps(6, [frozenset({0, 1}), frozenset({1, 2, 3}), frozenset({4}), frozenset({5})])
    done: set[int] = set()
    for layer in graph.list_layers():
        for node in layer:
            assert set(graph.list_actions(node).tolist()) <= done
        done |= set(layer)
    assert done == set(range(len(graph)))
