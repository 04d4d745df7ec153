"""The built-in embedder: hashed words and word pairs, and the length of the text.

It costs nothing, calls no endpoint, and is the same at build and request time. It represents words but not their
meaning, so an embedding model is usually more accurate.

Source: Weinberger et al., *Feature hashing for large scale multitask learning*, 2009.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from models.arrays import Singles
from models.conversation import ConversationWindow, split_prompts

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import HashingVectorizer

WORDS = "words"
"""The name of the embedder, which no endpoint may have."""
HASHED, DIMENSIONS = 256, 258
"""Dimensions of hashed words, and of all."""
_LENGTH_UNIT = 16.0


def embed_words(texts: Sequence[str]) -> Singles:
    """Return the embeddings of texts, (n, 258).

    An embedding has hashed words with unit norm, the logarithm of the length, and the share of digits.

    Complexity: O(letters).
    """
    if not texts:
        return np.empty((0, DIMENSIONS), dtype=np.float32)
    lengths = np.array([len(text) for text in texts], dtype=np.float32)
    digits = np.array([sum(map(str.isdigit, text)) for text in texts], dtype=np.float32)
    hashed: Any = _vectorizer().transform(texts).toarray()
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


@cache
def _vectorizer() -> "HashingVectorizer":
    from sklearn.feature_extraction.text import HashingVectorizer  # slow to import, and most servers never need it

    return HashingVectorizer(n_features=HASHED, ngram_range=(1, 2), dtype=np.float32)
