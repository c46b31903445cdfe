"""Joey NMT's network with the weights of ours."""

from types import SimpleNamespace

import pytest
import torch

from carousel.bench import joey as joeys
from carousel.bench import translate
from carousel.errors import ArgumentError

SMALL = {**translate.PLAIN, "embedding": 8, "hidden": 6, "decoder_hidden": 12, "dropout": 0.0, "label_smoothing": 0.0}


@pytest.mark.parametrize("feeding", [False, True])
def test_both_sides_are_one_network(joey, feeding):
    torch.manual_seed(1)
    ours = translate.make_network(60, {**SMALL, "input_feeding": feeding})
    theirs = joeys.make_joey(ours)
    batch = translate.make_batch(60, 7)
    a, b = joeys.joey_loss(theirs, joeys.joey_batch(batch)), ours.loss(batch).mean
    torch.testing.assert_close(a, b)
    a.backward(), b.backward()
    torch.testing.assert_close(theirs.encoder.rnn.weight_hh_l0.grad, ours.encoder.weight_hh_l0.grad)
    torch.testing.assert_close(theirs.decoder.rnn.weight_ih_l0.grad, ours.decoder.layers.weight_ih_l0.grad)
    key = theirs.decoder.attention.key_layer.weight.grad
    torch.testing.assert_close(key, ours.decoder.attention.key.weight.grad, rtol=1e-4, atol=1e-8)
    found = translate.joey_search(theirs, batch, 6)()
    assert found == translate.our_search(ours, batch, 6)()
    assert {len(tokens) for tokens in found} == {6}


@pytest.mark.parametrize("setup", translate.SETUPS)
def test_both_have_the_weights_that_are_said(joey, setup):
    words, settings = translate.SETUPS[setup]
    ours = translate.make_network(words, settings)
    theirs = joeys.make_joey(ours)
    count = sum(p.numel() for p in theirs.parameters())
    assert round(count / 1e6, 1) == 11.5
    hidden, decoder = settings["hidden"], settings["decoder_hidden"]
    only_ours = words + decoder + (2 * hidden + 1) * decoder  # biases; a map for c
    assert ours.size == count + only_ours


def test_special_tokens_change_places_and_words_stay():
    """[PAD] [START] [END] [UNK] are 0 to 3 here; there [UNK] [PAD] [START] [END] are."""
    assert joeys.theirs(torch.tensor([0, 1, 2, 3, 4, 99])).tolist() == [1, 2, 3, 0, 4, 99]


@pytest.mark.parametrize(("name", "value"), [("cell", "gru"), ("layers", 2), ("attention", "dot"), ("tied", "output")])
def test_a_network_that_joey_does_not_have_is_refused(name, value):
    joeys.need_like(SimpleNamespace(**LIKE))
    with pytest.raises(ArgumentError, match=f"{name} is {value}, and Joey NMT's network has"):
        joeys.need_like(SimpleNamespace(**{**LIKE, name: value}))


LIKE = {name: accepted[-1] for name, accepted in joeys.NETWORK.items()} | {"attention_size": None, "decoder_size": 12}
