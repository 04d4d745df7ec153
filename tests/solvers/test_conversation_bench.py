"""The simulation of conversations: the rule that knows the conversation is better than the stateless one."""

import pytest

from tests.bench.conversations import mean_with_interval, simulate_rules, values_of


@pytest.mark.slow
def test_the_aware_rule_costs_less_and_is_correct_more_often_than_the_stateless_one() -> None:
    """2,000 conversations; differences in pairs, with 95 % intervals."""
    simulated = {name: values_of(outcomes) for name, outcomes in simulate_rules(2000).items()}
    aware, stateless, strong = (simulated[name] for name in ("aware", "stateless", "always strong"))
    for name, sign in (("quality", 1), ("value", 1), ("cost", -1), ("switches", -1)):
        mean, off = mean_with_interval(aware[name] - stateless[name])
        assert sign * mean > off, name
    mean, off = mean_with_interval(aware["cost"] - strong["cost"])
    assert mean < -off
    held = simulated["aware, latch"]
    assert held["switches"].mean() < aware["switches"].mean()
