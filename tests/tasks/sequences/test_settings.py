"""Settings of the classifier of number sequences."""

import pytest
import torch

from carousel.errors import SettingsError
from carousel.tasks.sequences.settings import SequenceSettings


@pytest.mark.parametrize(("bidirectional", "size"), [(True, 10), (False, 5)])
def test_the_layers_give_as_many_numbers_as_is_said(bidirectional, size):
    own = SequenceSettings.read({"train": "t.csv", "hidden": 5, "layers": 2, "bidirectional": bidirectional})
    layers = own.encoder(3)
    assert own.encoded == size == layers(torch.randn(4, 2, 3))[0].shape[-1]
    assert (layers.num_layers, layers.dropout) == (2, own.dropout)


def test_numbers_have_no_classes():
    for given in ({"class_weights": "balanced"}, {"label_smoothing": 0.1}):
        with pytest.raises(SettingsError, match="numbers have no classes; leave it out, or give target='class'"):
            SequenceSettings.read({"train": "t.csv", "target": "number", **given})
        SequenceSettings.read({"train": "t.csv", **given})
