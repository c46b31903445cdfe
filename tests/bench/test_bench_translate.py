"""The two sides of the benchmark of translators are one network; where Joey NMT is missing, that is said."""

import json

import pytest
import torch

from carousel.bench import translate
from carousel.cli import main as cli

SMALL = {"vocabulary": 60, "embedding": 8, "hidden": 6, "decoder": 12, "dropout": 0.0, "smoothing": 0.0}


@pytest.fixture
def joey():
    return pytest.importorskip("joeynmt", reason="Joey NMT is not installed")


@pytest.mark.parametrize("feeding", [False, True])
def test_both_sides_are_one_network(joey, feeding):
    torch.manual_seed(1)
    size = {**SMALL, "feeding": feeding}
    theirs, ours = translate.make_joey(size), translate.make_model(size)
    translate.copy_weights(theirs, ours)
    batch = translate.make_batch(size, 7)
    a, b = translate.joey_loss(theirs, translate.joey_batch(batch)), ours.loss(batch).mean
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
    size = translate.SETUPS[setup]
    theirs, ours = translate.make_joey(size), translate.make_model(size)
    count = sum(p.numel() for p in theirs.parameters())
    assert round(count / 1e6, 1) == 11.5
    only_ours = size["vocabulary"] + size["decoder"] + (2 * size["hidden"] + 1) * size["decoder"]  # biases; a map for c
    assert ours.size == count + only_ours


def test_lengths_are_those_of_multi30k():
    batch = translate.make_batch(translate.SIZE, 4000)
    assert batch.source_lengths.double().mean() == pytest.approx(13.0, abs=0.3)
    assert batch.lengths.double().mean() == pytest.approx(12.4 + 1, abs=0.3)
    assert bool((batch.source_lengths.diff() <= 0).all())
    alike = translate.make_batch(translate.SIZE, 64, alike=True)
    assert torch.maximum(alike.source_lengths, alike.lengths - 1).unique().numel() <= 2


def test_it_is_written_and_said(joey, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(translate, "SETUPS", {"plain": {**SMALL, "feeding": False}})
    with pytest.raises(SystemExit) as stop:
        cli.main(["bench", "translate", "--out", str(tmp_path / "b"), "--seconds", "0.01"])
    assert not stop.value.code
    found = json.loads((tmp_path / "b" / "translate.json").read_text())
    assert [row["batch"] for row in found["training"]] == ["mixed", "alike"]
    assert "beam of 5, ratio to Joey NMT" in capsys.readouterr().out


def test_joey_is_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(translate.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as stop:
        cli.main(["bench", "translate", "--out", str(tmp_path / "b")])
    assert stop.value.code
    assert "pip install" in capsys.readouterr().err and not (tmp_path / "b").exists()
