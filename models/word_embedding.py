"""The built-in embedder: hashed words and word pairs, and the length of the text.

It costs nothing, calls no endpoint, and is the same at build and request time. It represents words but not their
meaning, so an embedding model is usually more accurate.

Source: Weinberger et al., *Feature hashing for large scale multitask learning*, 2009.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

import mmh3
import numpy as np

from models.arrays import Floats, Singles
from models.conversation import ConversationWindow, split_prompts

WORDS = "words"
"""The name of the embedder, which no endpoint may have."""
HASHED, DIMENSIONS = 256, 258
"""Dimensions of hashed words, and of all."""
_LENGTH_UNIT = 16.0
_WORD = re.compile(r"\b\w\w+\b")


def embed_words(texts: Sequence[str]) -> Singles:
    """Return the embeddings of texts, (n, 258).

    An embedding has hashed words with unit norm, the logarithm of the length, and the share of digits.

    Complexity: O(letters).
    """
    if not texts:
        return np.empty((0, DIMENSIONS), dtype=np.float32)
    lengths = np.array([len(text) for text in texts], dtype=np.float32)
    digits = np.array([sum(map(str.isdigit, text)) for text in texts], dtype=np.float32)
    hashed = np.array([_hash_words(text) for text in texts])
    extra = np.column_stack((np.log2(1 + lengths) / _LENGTH_UNIT, digits / np.maximum(lengths, 1)))
    return np.hstack((hashed, extra)).astype(np.float32)


def embed_prompts(prompts: Sequence[str], window: ConversationWindow | None) -> Singles:
    """Return the embeddings of prompts, (n, 258).

    The embedding of a conversation is the mean over its parts.

    Args:
        window: the conversation window; None to embed each prompt as it is.
    """
    parts = split_prompts(prompts, window)
    return parts.average_vectors(embed_words(parts.texts))


def _hash_words(text: str) -> Floats:
    """Return the signed counts of a text's words and word pairs by hash, with unit norm; zeros without words.

    >>> vector = _hash_words("cheap models first")
    >>> int(np.count_nonzero(vector)), float(vector @ vector).__round__(9)
    (5, 1.0)
    """
    words = _WORD.findall(text.lower())
    hashes = np.array([mmh3.hash(each) for each in (*words, *map(" ".join, pairwise(words)))], dtype=np.int64)
    counts = np.zeros(HASHED)
    np.add.at(counts, np.abs(hashes) % HASHED, np.where(hashes < 0, -1.0, 1.0))
    return counts / (np.linalg.norm(counts) or 1.0)
