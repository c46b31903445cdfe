"""Texts to integers: the tokens of each, and what an embedder reads beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...masks import row_positions
from ..stores.examples import Column
from .form import TextForm
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
        self, vocabulary: Vocabulary, max_length: int, *, lower: bool = False, context: WordVocabulary | None = None,
        form: TextForm | None = None, training: bool = False,
    ) -> None:  # fmt: skip
        """`form` is what texts are brought to; `training` says that they are those that the form was learned from."""
        self.vocabulary, self.max_length, self.lower, self.context = vocabulary, max_length, lower, context
        self.form, self.training = form, training
        self._book = WordVocabulary(vocabulary, None, lower)

    def prepare(self, texts: Sequence[str], tokenized: bool | None = None) -> Sequence[str]:
        """Texts in the form of the model; `tokenized` as in `TextForm.read`."""
        if self.form is None:
            return texts
        return self.form.read(texts, self.form.tokenized if self.training else tokenized).texts

    def __call__(self, texts: Sequence[str], tokenized: bool | None = None) -> tuple[dict[str, Column], np.ndarray]:
        """The columns of some texts, and which of them were cut off, (texts,) bool."""
        return self.encode(self.prepare(texts, tokenized))

    def encode(self, texts: Sequence[str]) -> tuple[dict[str, Column], np.ndarray]:
        """The same for texts in the form of the model."""
        if self.context is not None or self.vocabulary.beyond is not None:  # each word has its vector
            words = [text.split() for text in texts]
            short = [sentence[: self.max_length] for sentence in words]
            cut = np.array([len(sentence) > self.max_length for sentence in words], bool)
            context = {} if self.context is None else in_context(self.context.encode(short))
            return self._book.encode(short) | context, cut
        values, lengths = self.vocabulary.encode_many([text.lower() if self.lower else text for text in texts])
        tokens = cut_off(values, lengths, self.max_length)
        return {"tokens": tokens}, tokens.lengths < lengths

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        """The tokens of some texts as the texts have them, known or not, cut off as they are; of BPE, none."""
        return [self.vocabulary.split(text)[: self.max_length] for text in self.prepare(texts)]

    @property
    def dtypes(self) -> dict[str, Any]:
        """The numpy types of its columns."""
        own = self._book.dtypes
        return own if self.context is None else own | in_context(self.context.dtypes)

    @property
    def made_by(self) -> dict[str, Any]:
        """All that the integers depend on, in JSON's terms."""
        changed = "lower" if self.lower else ""
        own: dict[str, Any] = {
            "vocabulary": self.vocabulary.fingerprint, "max_length": self.max_length, "changed": changed,
        }  # fmt: skip
        if self.form is not None:
            own["form"] = [self.form.fingerprint, self.training]
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
