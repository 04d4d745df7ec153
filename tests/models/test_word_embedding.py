"""Embeddings by hashed words: exactly scikit-learn's, which was used before, without its import."""

import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import HashingVectorizer

from models.word_embedding import DIMENSIONS, HASHED, embed_words

PIECES = st.sampled_from(["the", "über", "Straße", "İstanbul", "日本語", "it's", "foo_bar", "x", "a1", "\n", "1,000"])
TEXTS = st.lists(st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.lists(PIECES).map(" ".join)))


@given(TEXTS)
def test_hashes_are_those_of_scikit_learn(texts: list[str]) -> None:
    found = embed_words(texts)
    assert (found.shape, found.dtype) == ((len(texts), DIMENSIONS), np.dtype(np.float32))
    if texts:
        peer = HashingVectorizer(n_features=HASHED, ngram_range=(1, 2), dtype=np.float32)
        np.testing.assert_array_equal(found[:, :HASHED], peer.transform(texts).toarray())


def test_an_embedding_does_not_import_scikit_learn() -> None:
    """Its import took three seconds, in the first request with a text."""
    script = "import sys; from models.word_embedding import embed_words; embed_words(['a text']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "mmh3" in done.stdout.split()
    assert "sklearn" not in done.stdout.split()
