"""Three simulated language models and an embedder.

Replies depend only on the prompt, so that traces and servers agree.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.demo.demo_table import DemoTable
from models import TraceSpec

EASY, MEDIUM, HARD = range(3)
PHRASES = {
    "everyday": (
        "the parcel arrived two days late", "the meeting moves to Thursday", "the color was wrong",
        "the train leaves at nine", "the oven needs a new door", "our office has a garden", "lunch costs twelve euros",
        "the printer is out of paper", "she speaks four languages", "the shop opens on Sunday", "the lamp flickers",
        "his bicycle was stolen", "the coffee is cold", "they moved to the coast",
    ),
    "legal": (
        "the tenant may sublet one room", "the supplier bears the risk of transport", "the warranty lapses",
        "either party may terminate", "liability excludes indirect damages", "notices require registered mail",
    ),
    "technical": (
        "the cache is cleared after each release", "the queue keeps its order", "the lock is never freed",
        "retries double the load", "the index fits into memory", "writes are acknowledged twice",
    ),
    "mathematical": (
        "every bounded sequence converges", "the sum of two odd numbers is even", "the set is countable",
        "the matrix has full rank", "the series diverges slowly", "all primes above two are odd",
    ),
}  # fmt: skip
"""Parts of prompts, by field."""
TOPICS = {
    "Translate into French:": ("legal", MEDIUM),
    "Answer this customer:": ("legal", MEDIUM),
    "Summarize for a manager:": ("mathematical", MEDIUM),
    "Explain to a new colleague:": ("technical", MEDIUM),
    "Check for contradictions:": ("technical", HARD),
    "Prove or refute:": ("mathematical", HARD),
}
"""Beginnings of prompts, the field that makes each difficult, and how difficult; prompts without it are easy."""
HIDDEN_SHARE = 0.03
"""Share of prompts that are one level more difficult than they look."""
CONFIDENCE_NOISE = 0.4
EMBEDDING_COLUMNS = 128
EMBEDDER = "embedder"
EMBEDDER_PRICE = 2e-8
"""USD per input token."""


@dataclass(frozen=True, slots=True)
class SimulatedModel:
    """A simulated language model.

    It has probabilities of a correct answer for easy, medium, and hard prompts, and prices in USD per token.
    """

    name: str
    chances: tuple[float, float, float]
    input_price: float
    output_price: float

    def answer_prompt(self, prompt: str) -> "SimulatedReply":
        """Return the reply to a prompt; equal prompts have equal replies."""
        level = _difficulty(prompt)
        chance = self.chances[level]
        correct = _unit(prompt, self.name, "outcome") < chance
        noise = CONFIDENCE_NOISE * (_unit(prompt, self.name, "confidence") - 0.5)
        output_tokens = 20 + round(40 * (1 + level) * _unit(prompt, self.name, "length"))
        return SimulatedReply(
            text=f"ANSWER {_digest(prompt if correct else f'{prompt}{self.name}').hex()[:8]}",
            correct=correct,
            confidence=float(np.clip(0.1 + 0.8 * chance + noise, 0.01, 0.99)),
            input_tokens=count_tokens(prompt),
            output_tokens=output_tokens,
            cost=count_tokens(prompt) * self.input_price + output_tokens * self.output_price,
        )


@dataclass(frozen=True, slots=True)
class SimulatedReply:
    """A reply, whether it is correct, and its cost in USD."""

    text: str
    correct: bool
    confidence: float
    input_tokens: int
    output_tokens: int
    cost: float


MODELS = (
    SimulatedModel("small", (0.98, 0.3, 0.1), 0.15e-6, 0.6e-6),
    SimulatedModel("medium", (0.985, 0.975, 0.3), 2e-6, 10e-6),
    SimulatedModel("large", (0.985, 0.975, 0.95), 5e-6, 25e-6),
)


def make_prompts(count: int, rng: np.random.Generator) -> list[str]:
    """Return distinct prompts; each has a topic, some phrases, and a ticket number."""
    every = [phrase for phrases in PHRASES.values() for phrase in phrases]
    tickets, prompts = rng.permutation(10 * count)[:count].tolist(), dict[frozenset[str], str]()
    while len(prompts) < count:
        topic = str(rng.choice(list(TOPICS)))
        phrases = rng.choice(every, rng.integers(3, 6), replace=False).tolist()
        text = f"{topic} {'; '.join(phrases)}. (ticket {tickets[len(prompts)]})"
        prompts.setdefault(frozenset((topic, *phrases)), text)
    return list(prompts.values())


def make_prompt_trace(prompts: list[str], *, has_confidences: bool) -> DemoTable:
    """Return the trace of all models on prompts, with embeddings; costs in USD."""
    fields = ("correct", "cost", *(("confidence",) if has_confidences else ()))
    columns = {
        f"{model.name}.{field}": np.array([float(getattr(reply, field)) for reply in replies])
        for model in MODELS
        for replies in [[model.answer_prompt(prompt) for prompt in prompts]]
        for field in fields
    }
    classifiers = [
        {"name": model.name}
        | {field: f"{model.name}.{field}" for field in fields if field != "cost"}
        | {"cost": {"column": f"{model.name}.cost"}}
        for model in MODELS
    ]
    spec = TraceSpec.model_validate({"kind": "trace", "unit": "USD", "classifiers": classifiers})
    return DemoTable(spec, columns, np.stack([embed_text(prompt) for prompt in prompts]))


def count_tokens(text: str) -> int:
    """Return the approximate number of tokens, by a common rule of thumb."""
    return len(text) // 4 + 8


def embed_text(text: str) -> NDArray[np.float32]:
    """Return the embedding of a text, (128,), with unit norm.

    The embedding is a hashed bag of words, with an indicator for each topic of the text.
    """
    words = np.zeros(EMBEDDING_COLUMNS - len(PHRASES), dtype=np.float32)
    for word in text.split():
        if not word.strip("()").isdigit():
            words[_digest(word)[0] % len(words)] += 1.0
    fields = [2.0 * any(phrase in text for phrase in phrases) for phrases in PHRASES.values()]
    vector = np.concatenate((np.array(fields, dtype=np.float32), words))
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-9), dtype=np.float32)


def _difficulty(prompt: str) -> int:
    """Return the difficulty of a text; unknown texts are of medium difficulty."""
    level = MEDIUM
    for topic, (field, difficulty) in TOPICS.items():
        if prompt.startswith(topic):
            level = difficulty if any(phrase in prompt for phrase in PHRASES[field]) else EASY
    return min(HARD, level + (_unit(prompt, "hidden") < HIDDEN_SHARE))


def _unit(*parts: str) -> float:
    """Return a number in [0, 1) that depends only on the parts."""
    return int.from_bytes(_digest("|".join(parts))[:6], "big") / 2**48


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
