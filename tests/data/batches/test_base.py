"""Resuming in the middle of an epoch gives exactly the batches that would have come; batches on another device."""

import json
from dataclasses import dataclass

import pytest
import torch
from helpers.stores import store_of
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from carousel.data import LineBatches, StreamBatches
from carousel.data.batches.base import TensorBatch

STORE = store_of([[3 + i] * (1 + i % 7) for i in range(60)])
MAKE = {
    "lines": lambda seed=0: LineBatches(STORE, tokens=40, seed=seed),
    "lines in parts": lambda seed=0: LineBatches(STORE, tokens=40, max_length=5, seed=seed),
    "evaluation": lambda seed=0: LineBatches(STORE, tokens=40, shuffle=False, seed=seed),
    "stream": lambda seed=0: StreamBatches(STORE, streams=3, bptt=10, seed=seed),
    "varied stream": lambda seed=0: StreamBatches(STORE, streams=3, bptt=10, vary=True, seed=seed),
}


def seen(batch):
    return [batch.inputs.tolist(), batch.targets.tolist(), batch.lengths.tolist(), batch.rows.tolist(), batch.reset]


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@given(stop=st.integers(0, 60))
def test_resumed_is_uninterrupted(make, stop):
    batches = make()
    uninterrupted = [seen(batch) for _ in range(4) for batch in batches]
    stop = min(stop, 2 * len(batches))

    first, done = make(), []
    state = first.state_dict()
    while len(done) < stop:
        for batch in first:
            done.append(seen(batch))
            state = json.loads(json.dumps(first.state_dict()))  # as it is while this batch is being used
            if len(done) == stop:
                break
    second = make()
    second.load_state_dict(state)
    while len(done) < len(uninterrupted):
        done += [seen(batch) for batch in second]
    assert done == uninterrupted


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_each_iter_is_an_epoch(make):
    whole = make()
    epochs = [[seen(batch) for batch in whole] for _ in range(3)]
    left_early = make()
    next(iter(left_early))
    assert left_early.epoch == 0
    iter(left_early)  # asked for and not used, as training engines do
    assert [seen(batch) for batch in left_early] == epochs[1]  # and not the rest of the first
    assert left_early.epoch == 2
    assert [seen(batch) for batch in left_early] == epochs[2]


def test_set_epoch_keeps_a_place_that_was_loaded():
    batches = MAKE["lines"]()
    expected = [seen(batch) for batch in batches][3:]
    other = MAKE["lines"]()
    other.load_state_dict({**other.state_dict(), "batch": 3})
    other.set_epoch(0)
    assert [seen(batch) for batch in other] == expected
    next(iter(other))  # a place that was merely reached is not kept
    for epoch in (1, 0):
        other.set_epoch(epoch)
        assert len(list(other)) == len(other)


def test_other_data_or_settings_are_refused():
    state = MAKE["lines"]().state_dict()
    with pytest.raises(ValueError, match=r"seed has changed \(0 then, 1 now\); restore it"):
        MAKE["lines"](seed=1).load_state_dict(state)
    with pytest.raises(ValueError, match=r"max_length has changed \(None then, 5 now\)"):
        MAKE["lines in parts"]().load_state_dict(state)
    with pytest.raises(ValueError, match="the middle of an epoch: data has changed; restore it"):
        LineBatches(store_of([[7]]), tokens=40).load_state_dict(state)
    with pytest.raises(ValueError, match="has changed"):
        MAKE["stream"]().load_state_dict(state)


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_repr_says_what_it_is(make):
    assert repr(make()).startswith(type(make()).__name__ + "(TokenStore('rows.txt', 60 lines, ")


@dataclass(frozen=True)
class Outer(TensorBatch):
    inner: object
    rows: Tensor
    labels: Tensor | None = None
    names: tuple[str, ...] = ("a",)


def test_all_tensors_of_a_batch_are_moved_and_nothing_else():
    (inner,) = LineBatches(store_of([[3, 4], [5]]), tokens=40)
    batch = Outer(inner, torch.arange(2))
    moved = batch.to("meta", non_blocking=True)
    tensors = (moved.rows, moved.inner.inputs, moved.inner.targets, moved.inner.lengths, moved.inner.rows)
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert moved.labels is None and moved.names is batch.names and moved.inner.reset is inner.reset
    assert batch.rows.device.type == inner.inputs.device.type == "cpu"
