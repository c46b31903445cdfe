"""What the linear model is given of a text is what the network reads of it."""

import numpy as np
import pytest
import torch

from carousel.data import Vocabulary
from carousel.tasks.classify.encoder import ClassifyEncoder

TEXTS = ["a fine film", "so dull a film that nobody saw it"]


class Linear:
    """Stands in for the model of n-grams: the number of characters it was given, for two classes."""

    fingerprint = "linear"

    def __call__(self, texts):
        return torch.tensor([[len(text), -len(text)] for text in texts], dtype=torch.float32)


@pytest.mark.parametrize("kind", ["word", "character", "bpe"])
def test_long_texts_are_shortened_to_the_tokens_that_are_read(kind):
    vocabulary = Vocabulary.train(TEXTS, kind, size=280)
    encoder = ClassifyEncoder(vocabulary, 4)
    for text, short in zip(TEXTS, encoder.shorten(TEXTS), strict=True):
        assert text.startswith(short)
        assert vocabulary.encode(short).tolist() == vocabulary.encode(text)[:4].tolist()
    assert ClassifyEncoder(vocabulary, 1000).shorten(TEXTS) == TEXTS


def test_a_column_of_scores_only_with_a_linear_model():
    encoder = ClassifyEncoder(Vocabulary.train(TEXTS, "word"), 3)
    assert encoder(TEXTS)[0].keys() == encoder.dtypes.keys() == {"tokens"}
    before = encoder.made_by
    encoder.linear = Linear()
    columns, cut = encoder(TEXTS)
    assert columns["linear"].values.tolist() == [11, -11, len("so dull a"), -len("so dull a")]
    assert columns["linear"].lengths.tolist() == [2, 2] and cut.tolist() == [False, True]
    assert encoder.dtypes["linear"] is np.float32 and encoder.made_by == {**before, "linear": "linear"}
