"""Routing of simulated conversations: ``parsimony bench conversations``.

Each conversation has a difficulty, which every turn shows with noise. Two models answer, at prices of a small and of
a large model; a provider bills the prefix that it has cached at a discount. The rules: always the strong model, always
the cheap one, stateless (the last message only, mean costs), and aware of the conversation (estimates from a window of
turns, costs of cached prefixes), without and with a latch. The intervals are of means over conversations.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from models.arrays import Floats
from solvers.conversations import (
    NEW_CONVERSATION,
    ConversationState,
    TokenPrices,
    advance_state,
    allow_models,
    price_turn,
)

NAMES = ("cheap", "strong")
PRICES = TokenPrices(np.array([0.15, 2.5]) / 1e6, np.array([0.075, 1.25]) / 1e6, np.array([0.6, 10.0]) / 1e6)
STRENGTHS = {"cheap": 1.0, "strong": 16.0}
SYSTEM, MEAN_TURNS, MOST_TURNS = 800, 6, 30
OFFSETS = np.array([0.8, 3.2])
"""Log-odds of a correct answer to a message of mean difficulty."""
SPREAD, TURN_SPREAD, NOISE = 1.6, 0.5, 1.2
"""Standard deviations of difficulty between conversations and between turns, and of its estimate from one message."""
ACCURACY_PRICE = 0.05
"""Dollars that one more correct answer justifies."""
WINDOW, LATCH = 4, 2


@dataclass(frozen=True)
class Conversation:
    """Turns (t,): tokens of the user's message and of the answer, and their difficulties, true and as estimated."""

    sent: Floats
    came: Floats
    difficulty: Floats
    estimated: Floats
    draws: Floats


@dataclass(frozen=True)
class Outcome:
    """What a rule costs in a conversation, in dollars, and the numbers of turns, correct answers, and switches."""

    cost: float
    turns: int
    right: int
    switches: int


Rule = Callable[[Conversation, int, ConversationState, float], int]
"""Returns the model of a turn, given the state and the tokens of the prompt."""


def draw_conversation(rng: np.random.Generator) -> Conversation:
    turns = int(min(rng.geometric(1 / MEAN_TURNS), MOST_TURNS))
    difficulty = rng.normal(scale=SPREAD) + rng.normal(scale=TURN_SPREAD, size=turns)
    estimated = difficulty + rng.normal(scale=NOISE, size=turns)
    return Conversation(rng.gamma(2, 60, turns), rng.gamma(2, 150, turns), difficulty, estimated, rng.random(turns))


def estimate_accuracy(difficulty: float, variance: float) -> Floats:
    """Return the probability that each model is correct, (m,), by the probit approximation of the error."""
    return np.asarray(1 / (1 + np.exp(-(OFFSETS - difficulty) / np.sqrt(1 + np.pi * variance / 8))))


def shrink_estimate(values: Floats) -> tuple[float, float]:
    """Return the posterior mean and variance of the last turn's difficulty, of estimates of turns in a window."""
    within, between = NOISE**2 + TURN_SPREAD**2, SPREAD**2
    mean = float(values.sum()) * between / (between * len(values) + within)
    shared = between * within / (between * len(values) + within)
    own = TURN_SPREAD**2 / within
    residual = float(values[-1]) - mean
    return mean + own * residual, shared * (1 - own) ** 2 + TURN_SPREAD**2 * (1 - own)


def decide_stateless(one: Conversation, turn: int, state: ConversationState, prompt: float) -> int:
    mean, variance = shrink_estimate(one.estimated[turn : turn + 1])
    costs = price_turn(PRICES, SYSTEM + 450 * MEAN_TURNS / 2, 300.0, np.zeros(2))
    return int(np.argmax(estimate_accuracy(mean, variance) * ACCURACY_PRICE - costs))


def make_aware_rule(window: int, latch: int) -> Rule:
    def decide(one: Conversation, turn: int, state: ConversationState, prompt: float) -> int:
        mean, variance = shrink_estimate(one.estimated[max(0, turn + 1 - window) : turn + 1])
        cached = np.array([state.cached.get(name, 0) for name in NAMES])
        costs = price_turn(PRICES, prompt, 300.0, cached)
        allowed = allow_models(state, NAMES, np.array(list(STRENGTHS.values())))
        values = estimate_accuracy(mean, variance) * ACCURACY_PRICE - costs
        return int(np.argmax(np.where(allowed, values, -np.inf)))

    return decide


RULES: dict[str, tuple[Rule, int]] = {
    "always strong": (lambda one, turn, state, prompt: 1, 0),
    "always cheap": (lambda one, turn, state, prompt: 0, 0),
    "stateless": (decide_stateless, 0),
    "aware": (make_aware_rule(WINDOW, 0), 0),
    "aware, latch": (make_aware_rule(WINDOW, LATCH), LATCH),
}


def run_conversation(one: Conversation, rule: Rule, latch: int) -> Outcome:
    """Run a conversation; every rule is billed alike, with the discount of what each model has cached."""
    state, prompt, cost, right, switches, last = NEW_CONVERSATION, float(SYSTEM), 0.0, 0, 0, -1
    for turn in range(len(one.sent)):
        prompt += one.sent[turn]
        choice = rule(one, turn, state, prompt)
        cached = np.array([state.cached.get(name, 0) for name in NAMES])
        cost += float(price_turn(PRICES, prompt, one.came[turn], cached)[choice])
        right += int(one.draws[turn] < 1 / (1 + np.exp(-(OFFSETS[choice] - one.difficulty[turn]))))
        switches += int(last not in (-1, choice))
        last, state = choice, advance_state(state, NAMES[choice], int(prompt), STRENGTHS, latch)
        prompt += one.came[turn]
    return Outcome(cost, len(one.sent), right, switches)


def simulate_rules(count: int, seed: int = 0) -> dict[str, list[Outcome]]:
    """Return the outcomes of the same conversations by rule."""
    rng = np.random.default_rng(seed)
    conversations = [draw_conversation(rng) for _ in range(count)]
    return {
        name: [run_conversation(one, rule, latch) for one in conversations] for name, (rule, latch) in RULES.items()
    }


def mean_with_interval(values: Floats) -> tuple[float, float]:
    """Return a mean, and half the width of its 95 % interval (normal)."""
    return float(values.mean()), float(1.96 * values.std(ddof=1) / len(values) ** 0.5)


def values_of(outcomes: list[Outcome]) -> dict[str, Floats]:
    """Return cost and value (correct answers in dollars, less cost) per 1,000 conversations, quality, and switches."""
    cost, turns, right, switches = np.array([(one.cost, one.turns, one.right, one.switches) for one in outcomes]).T
    value = 1000 * (ACCURACY_PRICE * right - cost)
    return {"cost": 1000 * cost, "quality": right / turns, "value": value, "switches": switches}


def main() -> None:
    parser = argparse.ArgumentParser(prog="parsimony bench conversations", description=__doc__)
    parser.add_argument("--conversations", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    simulated = {name: values_of(one) for name, one in simulate_rules(given.conversations, given.seed).items()}
    table = Table(title=f"{given.conversations} conversations, means with 95 % intervals", title_justify="left")
    for column in ("rule", "$ per 1,000", "correct, %", "value, $ per 1,000", "switches"):
        table.add_column(column, justify="left" if column == "rule" else "right")
    for name, values in simulated.items():
        scaled = {**values, "quality": 100 * values["quality"]}
        cells = [mean_with_interval(scaled[key]) for key in ("cost", "quality", "value", "switches")]
        table.add_row(name, *(f"{mean:.2f} ±{off:.2f}" for mean, off in cells))
    Console().print(table)
    for other in ("always strong", "always cheap", "stateless"):
        aware, one = simulated["aware"], simulated[other]
        cost, quality = (mean_with_interval(aware[key] - one[key]) for key in ("cost", "quality"))
        text = f"aware compared with {other}: cost {cost[0]:+.2f} ±{cost[1]:.2f} $ per 1,000"
        Console().print(f"{text}, correct {100 * quality[0]:+.2f} ±{100 * quality[1]:.2f} points", highlight=False)


if __name__ == "__main__":
    main()
