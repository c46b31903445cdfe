"""Windows of series against a plain loop over their rows."""

import numpy as np
import pytest
import torch

from carousel.data.batches.windows import Rows, WindowBatch, WindowBatches
from carousel.data.sources.filling import fill_missing

LENGTHS = (5, 1, 7)  # rows of each series; one empty row follows each
SEASON, PHASES = 4, (1, 0, 3)


@pytest.fixture(params=[False, True], ids=["ahead", "stepwise"])
def rows(request):
    return make_rows(request.param)


def make_rows(stepwise=False):
    total = sum(LENGTHS) + len(LENGTHS)
    starts = np.cumsum([0, *(length + 1 for length in LENGTHS)])[:-1]
    values = np.arange(2.0 * total, dtype=np.float32).reshape(total, 2) + 1
    there = np.ones((total, 2), bool)
    values[3, 0], there[3, 0] = np.nan, False  # a reading follows
    values[-2, 1], there[-2, 1] = np.nan, False  # none follows
    for start, length in zip(starts, LENGTHS, strict=True):
        there[start + length] = False
    covariates = np.arange(total, dtype=np.float32)[:, None] * 10
    return Rows(
        fill_missing(values, "interpolate"), there, covariates, starts, starts + np.array(LENGTHS), np.array(PHASES),
        SEASON, stepwise,
    )  # fmt: skip


def test_a_window_is_what_a_loop_finds(rows):
    past, ahead = 3, 2
    origins = np.concatenate(
        [start + np.arange(length + 1) for start, length in zip(rows.starts, LENGTHS, strict=True)]
    )
    batch = rows.window(origins, past, ahead)
    bounds = [*rows.starts.tolist(), len(rows.there)]
    for b, origin in enumerate(origins.tolist()):
        series = max(k for k, start in enumerate(rows.starts.tolist()) if start <= origin)
        start, end = bounds[series], bounds[series] + LENGTHS[series]
        assert int(batch.series[b]) == series
        for k, row in enumerate(range(origin - past, origin + ahead)):
            inside = start <= row < end
            part, known = (batch.past, batch.known) if k < past else (batch.future, batch.there)
            step = k if k < past else k - past
            assert known[step, b].tolist() == (rows.there[row].tolist() if inside else [False, False])
            for v in range(2):
                if known[step, b, v]:
                    assert part[step, b, v] == 1 + 2 * row + v
                elif k < past and not inside:
                    assert part[step, b, v] == 0
            assert int(batch.phase[k, b]) == (row - start + PHASES[series]) % SEASON
            assert batch.covariates[k, b, 0] == 10 * min(max(row, start), bounds[series + 1] - 1)


def test_a_gap_is_bridged_only_when_it_has_closed():
    """Row 3 lies between 5 and 9: a line to the next reading once that is in the past, the last reading until then."""
    open_, closed = make_rows().window(np.array([4, 5]), 2, 1).past[:, :, 0].T
    assert open_.tolist() == [5, 5] and closed.tolist() == [7, 9]
    assert make_rows(stepwise=True).window(np.array([5]), 2, 1).past[:, 0, 0].tolist() == [5, 9]


def test_origins_have_enough_rows_ahead(rows):
    assert rows.origins([2, 0, 3], LENGTHS, 2).tolist() == [2, 3, 8 + 3, 8 + 4, 8 + 5]
    assert rows.origins([4, 1, 7], LENGTHS, 2).tolist() == []


def test_parts_of_a_batch(rows):
    batch = rows.window(np.array([3, 4, 9]), 3, 2)
    chosen = batch.take(torch.tensor([2, 0]))
    assert chosen.origins.tolist() == [9, 3]
    assert torch.equal(chosen.past, batch.past[:, [2, 0]]) and torch.equal(chosen.phase, batch.phase[:, [2, 0]])
    whole = WindowBatch.join([batch.take(torch.tensor([0])), batch.take(torch.tensor([1, 2]))])
    assert all(torch.equal(a, b) for a, b in zip(vars(whole).values(), vars(batch).values(), strict=True))
    short = batch.last(1)
    assert torch.equal(short.past, batch.past[-1:]) and torch.equal(short.future, batch.future)
    assert torch.equal(short.phase, batch.phase[2:]) and torch.equal(short.covariates, batch.covariates[2:])
    assert repr(short) == "WindowBatch(3 windows, 1 steps, 2 ahead)"


def test_some_variables(rows):
    one = rows.part(slice(1, 2)).window(np.array([4]), 3, 2)
    both = rows.window(np.array([4]), 3, 2)
    assert torch.equal(one.past, both.past[..., 1:]) and torch.equal(one.there, both.there[..., 1:])


def test_the_fingerprint_sees_every_part(rows):
    changed = make_rows(rows.stepwise)
    assert changed.fingerprint == rows.fingerprint
    changed.covariates[-1] += 1
    assert changed.fingerprint != rows.fingerprint
    assert make_rows(not rows.stepwise).fingerprint != rows.fingerprint


def test_every_window_once_an_epoch(rows):
    origins = rows.origins([0, 0, 0], LENGTHS, 1)
    batches = WindowBatches(rows, origins, 2, 1, windows=4)
    for _ in range(2):
        epoch = [batch.origins.tolist() for batch in batches]
        assert sorted(origin for batch in epoch for origin in batch) == origins.tolist()
        assert [len(batch) for batch in epoch].count(4) == len(origins) // 4
    assert batches.settings["windows"] == len(origins) and batches.padding == 0
