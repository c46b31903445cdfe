"""Texts to integers: the tokens of each, and what an embedder reads beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...masks import row_positions
from ..stores.examples import Column
from .vocabulary import Vocabulary
from .words import WordVocabulary, in_context


class TextEncoder:
    """How a model reads texts: at most `max_length` tokens of each; with `context`, the words as an embedder has them.

    >>> words = Vocabulary.train(["a fine film", "a dull film"], "word")
    >>> columns, cut = TextEncoder(words, 2, lower=True)(["A film", "a dull film"])
    >>> columns["tokens"].values.tolist(), cut.tolist()
    ([4, 5, 4, 6], [False, True])
    """

    def __init__(
        self, vocabulary: Vocabulary, max_length: int, *, lower: bool = False, context: WordVocabulary | None = None
    ) -> None:
        self.vocabulary, self.max_length, self.lower, self.context = vocabulary, max_length, lower, context
        self._book = WordVocabulary(vocabulary, None, lower)

    def __call__(self, texts: Sequence[str]) -> tuple[dict[str, Column], np.ndarray]:
        """The columns of some texts, and which of them were cut off, (texts,) bool."""
        if self.context is not None:  # one split for both, so that each word has its vector
            words = [text.split() for text in texts]
            short = [sentence[: self.max_length] for sentence in words]
            cut = np.array([len(sentence) > self.max_length for sentence in words], bool)
            return self._book.encode(short) | in_context(self.context.encode(short)), cut
        values, lengths = self.vocabulary.encode_many([text.lower() if self.lower else text for text in texts])
        tokens = cut_off(values, lengths, self.max_length)
        return {"tokens": tokens}, tokens.lengths < lengths

    @property
    def dtypes(self) -> dict[str, Any]:
        """The numpy types of its columns."""
        own = self._book.dtypes
        return own if self.context is None else own | in_context(self.context.dtypes)

    @property
    def made_by(self) -> dict[str, Any]:
        """All that the integers depend on, in JSON's terms."""
        changed = "lower" if self.lower else ""
        own = {"vocabulary": self.vocabulary.fingerprint, "max_length": self.max_length, "changed": changed}
        return own if self.context is None else {**own, "context": self.context.fingerprint}


def cut_off(values: np.ndarray, lengths: np.ndarray, most: int) -> Column:
    """Rows given end to end, each cut off after `most` values.

    >>> import numpy as np
    >>> from carousel.data.text.encoder import cut_off
    >>> [part.tolist() for part in cut_off(np.array([1, 2, 3, 4]), np.array([3, 1]), 2)]
    [[1, 2, 4], [2, 1]]
    """
    if lengths.max(initial=0) <= most:
        return Column(values, lengths)
    return Column(values[row_positions(lengths) < most], np.minimum(lengths, most))
