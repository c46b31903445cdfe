"""Batches of lines against a plain loop over the lines."""

import pickle

import pytest
import torch
from helpers.stores import store_of
from hypothesis import given
from hypothesis import strategies as st

from carousel.data import END, PAD, START, LineBatches, Lines, Vocabulary, tokenize

ROWS = st.lists(st.lists(st.integers(3, 99), min_size=1, max_size=12), min_size=1, max_size=40)
BUDGET = st.integers(1, 60)
SIZES = st.one_of(
    st.fixed_dictionaries({"tokens": BUDGET}),
    st.fixed_dictionaries({"sequences": st.integers(1, 9)}),
    st.fixed_dictionaries({"tokens": BUDGET, "sequences": st.integers(1, 9)}),
)


def sequences(batch):
    """(row, inputs, targets) of each sequence of a batch, padding checked and taken off."""
    assert batch.inputs.shape == batch.targets.shape and batch.inputs.dtype == batch.targets.dtype == torch.int64
    assert batch.inputs.shape[0] == batch.lengths.max()
    assert batch.tokens == batch.lengths.sum() == (batch.targets != PAD).sum() == (batch.inputs != PAD).sum()
    out = []
    for b, n in enumerate(batch.lengths.tolist()):
        assert not batch.inputs[n:, b].any() and not batch.targets[n:, b].any()
        out.append((int(batch.rows[b]), batch.inputs[:n, b].tolist(), batch.targets[:n, b].tolist()))
    return out


@given(ROWS, SIZES, st.booleans(), st.integers(0, 3))
def test_every_line_once_and_as_it_should_be(rows, sizes, shuffle, epoch):
    batches = LineBatches(store_of(rows), **sizes, shuffle=shuffle, seed=5)
    batches.set_epoch(epoch)
    made = list(batches)
    got = sorted(sequence for batch in made for sequence in sequences(batch))
    assert got == [(i, [START, *row], [*row, END]) for i, row in enumerate(rows)]
    assert len(made) == len(batches)
    assert batches.tokens == sum(batch.tokens for batch in made) == sum(len(row) + 1 for row in rows)
    places = sum(batch.targets.numel() for batch in made)
    assert batches.padding == pytest.approx(1 - batches.tokens / places)
    assert all(batch.reset for batch in made)


@given(ROWS, st.integers(1, 8), SIZES)
def test_long_lines_are_cut(rows, longest, sizes):
    """Parts, put together, are the line; each goes on reading where the one before ended."""
    batches = LineBatches(store_of(rows), max_length=longest, **sizes)
    parts: dict[int, list] = {}
    for batch in batches:
        assert batch.inputs.shape[0] <= longest
        for row, inputs, targets in sequences(batch):
            parts.setdefault(row, []).append((inputs, targets))
    assert batches.tokens == sum(len(row) + 1 for row in rows)
    for i, row in enumerate(rows):
        whole = list(zip([START, *row], [*row, END], strict=True))
        expected = [whole[k : k + longest] for k in range(0, len(whole), longest)]
        got = [list(zip(*part, strict=True)) for part in parts[i]]
        assert sorted(got) == sorted(expected)


def test_from_text(text_file, tmp_path):
    lines = Lines(text_file("床前明月光\n疑是地上霜\n"))
    vocabulary = Vocabulary.train(lines)
    batches = LineBatches(tokenize(lines, vocabulary, tmp_path), sequences=2, shuffle=False)
    (batch,) = pickle.loads(pickle.dumps(batches))
    assert vocabulary.decode(batch.inputs[:, 1]) == vocabulary.decode(batch.targets[:, 1]) == "疑是地上霜"
    assert batch.inputs[0].tolist() == [START] * 2 and batch.targets[-1].tolist() == [END] * 2
    assert batch.to("cpu").tokens == 12 and repr(batch) == "TextBatch(6 steps, 2 sequences, 12 tokens)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give tokens or sequences, or both"),
        ({"tokens": 0}, "tokens must be a whole number from 1 up or None, got 0"),
        ({"sequences": True}, "sequences must be a whole number from 1 up or None, got True"),
        ({"tokens": 9, "max_length": -1}, "max_length must be a whole number from 1 up or None, got -1"),
        ({"tokens": 9, "seed": -1}, "seed must be a whole number from 0 up, got -1"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        LineBatches(store_of([[5]]), **arguments)
