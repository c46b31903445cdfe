"""Texts as the classifier reads them: tokens, and what the linear model says of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...data.stores.examples import Column
from ...data.text.encoder import TextEncoder

if TYPE_CHECKING:
    from ...networks.ngrams import NGramClassifier


class ClassifyEncoder(TextEncoder):
    """A text encoder with a column `linear`: the log-probability of each class by a model of n-grams.

    Texts that the linear model was trained on have none: the two models are trained apart.
    """

    linear: NGramClassifier | None = None

    def encode(self, texts: Sequence[str]) -> tuple[dict[str, Column], np.ndarray]:
        columns, cut = super().encode(texts)
        if self.linear is not None:
            scores = self.linear(self.shorten(texts)).numpy()
            columns["linear"] = Column(scores.reshape(-1), np.full(len(texts), scores.shape[1]))
        return columns, cut

    def shorten(self, texts: Sequence[str]) -> list[str]:
        """Of each text, in the form of the model, the part that the network reads: `max_length` tokens."""
        match self.vocabulary.kind:
            case "word":
                words = (text.split() for text in texts)
                return [" ".join(row[: self.max_length]) for row in words]
            case "character":
                return [text[: self.max_length] for text in texts]
        encoded = (self.vocabulary.encode(text.lower() if self.lower else text) for text in texts)
        return [
            text if len(ids) <= self.max_length else self.vocabulary.decode(ids[: self.max_length])
            for text, ids in zip(texts, encoded, strict=True)
        ]

    @property
    def dtypes(self) -> dict[str, Any]:
        return super().dtypes if self.linear is None else super().dtypes | {"linear": np.float32}

    @property
    def made_by(self) -> dict[str, Any]:
        return super().made_by if self.linear is None else {**super().made_by, "linear": self.linear.fingerprint}
