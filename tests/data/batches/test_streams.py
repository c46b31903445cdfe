"""Batches of running text against slices of the stream."""

import numpy as np
import pytest
from helpers.stores import store_of
from hypothesis import given
from hypothesis import strategies as st

from carousel.data import PAD, START, StreamBatches
from carousel.errors import DataError

COUNTS = st.integers(1, 200).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n)))


@given(COUNTS, st.integers(1, 50), st.booleans(), st.integers(0, 3))
def test_every_token_once_in_streams(counts, bptt, vary, epoch):
    n, streams = counts
    tokens = [5 + i % 90 for i in range(n)]
    batches = StreamBatches(store_of([tokens[:7], tokens[7:]]), streams=streams, bptt=bptt, vary=vary, seed=1)
    batches.set_epoch(epoch)
    made = list(batches)
    assert len(made) == len(batches) and [b.reset for b in made] == [True] + [False] * (len(made) - 1)
    inputs, targets = (np.concatenate([getattr(b, name).numpy() for b in made]) for name in ("inputs", "targets"))
    lengths = sum(b.lengths.numpy() for b in made)
    assert lengths.max() - lengths.min() <= 1 and lengths.sum() == n == batches.tokens
    split = np.split(np.arange(n), np.cumsum(lengths)[:-1])  # the whole stream, cut into equal streams
    for b, places in enumerate(split):
        assert targets[: lengths[b], b].tolist() == [tokens[i] for i in places]
        assert inputs[: lengths[b], b].tolist() == [tokens[i - 1] if i else START for i in places]
        assert not targets[lengths[b] :, b].any() and not inputs[lengths[b] :, b].any()
    assert batches.padding == pytest.approx(1 - n / targets.size)
    for batch in made:
        assert batch.tokens == batch.lengths.sum() == (batch.targets != PAD).sum()
        assert batch.inputs.shape == (batch.lengths.max(), streams) and batch.rows.tolist() == list(range(streams))
    if not vary:
        assert [len(b.inputs) for b in made[:-1]] == [bptt] * (len(made) - 1) and len(made[-1].inputs) <= bptt


def test_streams_are_those_of_the_usual_batchify():
    """Where the tokens divide evenly: the reshape that word language model scripts do, one token later."""
    tokens = np.arange(5, 5 + 60)
    usual = tokens.reshape(4, 15).T
    made = list(StreamBatches(store_of([tokens.tolist()]), streams=4, bptt=6))
    assert [b.targets.tolist() for b in made] == [usual[k : k + 6].tolist() for k in (0, 6, 12)]


def test_varied_windows():
    batches = StreamBatches(store_of([[5] * 100_000]), streams=1, bptt=35, vary=True, seed=3)
    epochs = [[len(batch.inputs) for batch in batches] for _ in range(3)]
    assert epochs[0] != epochs[1] != epochs[2]
    assert {sum(epoch) for epoch in epochs} == {100_000} and {len(epoch) for epoch in epochs} == {len(batches)}
    lengths = np.array(epochs).ravel()
    assert abs(np.median(lengths) - 35) <= 1 and lengths.min() >= 4 and lengths.max() < 70
    short = np.mean(lengths < 0.6 * 35)
    assert 0.03 < short < 0.07  # AWD-LSTM: one in twenty is near 35 / 2
    assert 4 < lengths[lengths > 21].std() < 6  # the others: normal, standard deviation 5
    again = StreamBatches(store_of([[5] * 100_000]), streams=1, bptt=35, vary=True, seed=3)
    assert [len(batch.inputs) for batch in again] == epochs[0]


def test_too_few_tokens_for_the_streams():
    with pytest.raises(DataError) as error:
        StreamBatches(store_of([[5, 6, 7]]), streams=4, bptt=2)
    expected = "rows.txt: 3 tokens are too few for 4 parallel streams; give more text, or at most 3 streams"
    assert str(error.value) == expected


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="streams must be a whole number from 1 up, got 0"):
        StreamBatches(store_of([[5]]), streams=0, bptt=2)
    with pytest.raises(ValueError, match=r"bptt must be a whole number from 1 up, got 2\.5"):
        StreamBatches(store_of([[5]]), streams=1, bptt=2.5)
