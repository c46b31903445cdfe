"""PackedStepper of a search, where rows share parents and words, against the layer on rows of their own."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import carousel
from carousel.layers import BeamState, PackedStepper
from carousel.layers.packed import InputProjectionCache

I, WORDS = 5, 7
KINDS = [
    carousel.RNN, carousel.LSTM, carousel.GRU, carousel.PeepholeLSTM, carousel.CoupledLSTM, carousel.LayerNormLSTM,
    carousel.ResetBeforeGRU,
]  # fmt: skip
ROWS = st.lists(st.integers(0, 99), min_size=1, max_size=13)


def parts(state):
    return state if isinstance(state, tuple) else (state,)


@settings(max_examples=25)
@given(st.integers(1, 9), st.lists(ROWS, min_size=1, max_size=3), st.integers(0, 99))
@pytest.mark.parametrize("hidden", [16, 13])
@pytest.mark.parametrize("remembers", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_rows_that_branch(kind, remembers, hidden, first, choices, seed):
    torch.manual_seed(seed)
    layer = kind(I, hidden, num_layers=2, dtype=torch.float64)
    words = torch.randn(WORDS, I, dtype=torch.float64)
    with torch.no_grad():
        steps, rows, state = PackedStepper(layer, remembers), BeamState(), None
        for choice in [None, *choices]:
            if choice is not None:
                count = parts(state)[0].shape[1]
                picked = torch.tensor(choice) % count
                rows = rows.select(picked)
                own = tuple(part[:, picked] for part in parts(state))
                state = own if isinstance(state, tuple) else own[0]
            tokens = torch.randint(WORDS, (first if choice is None else len(choice),))
            y, rows = steps.step(words, rows, tokens)
            want, state = layer(words[tokens].unsqueeze(0), state)
            torch.testing.assert_close(y, want[0])
            for a, b in zip(parts(rows.state), parts(state), strict=True):
                torch.testing.assert_close(a, b)


def test_against_torch():
    torch.manual_seed(0)
    theirs, layer = torch.nn.LSTM(I, 24), carousel.LSTM(I, 24)
    layer.load_state_dict(theirs.state_dict())
    words, tokens, parents = torch.randn(WORDS, I), torch.randint(WORDS, (40,)), torch.randint(6, (40,))
    state = torch.randn(1, 6, 24), torch.randn(1, 6, 24)
    with torch.no_grad():
        y, rows = PackedStepper(layer).step(words, BeamState(state, parents), tokens)
        want, (h, c) = theirs(words[tokens].unsqueeze(0), tuple(part[:, parents] for part in state))
    torch.testing.assert_close(y, want[0])
    torch.testing.assert_close(rows.state, (h, c))


@pytest.mark.parametrize("options", [{"proj_size": 7}, {"zoneout": 0.3}, {"bias": False}], ids=repr)
@pytest.mark.parametrize("threads", [1, 2])
def test_options_and_threads(options, threads):
    layer = carousel.LSTM(I, 500, **options).eval()  # so many units that threads share them, and not the rows
    words, tokens = torch.randn(WORDS, I), torch.randint(WORDS, (30,))
    parents, before = torch.randint(8, (30,)), torch.get_num_threads()
    with torch.no_grad():
        state = layer(torch.randn(1, 8, I))[1]
        torch.set_num_threads(threads)
        y, _ = PackedStepper(layer).step(words, BeamState(state, parents), tokens)
        torch.set_num_threads(before)
        want = layer(words[tokens].unsqueeze(0), tuple(part[:, parents].contiguous() for part in state))[0]
    torch.testing.assert_close(y, want[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("remembers", [False, True])
def test_rows_that_are_not_there(few, remembers):
    count = 2 if few else 20
    layer, words = carousel.LSTM(I, 8), torch.randn(WORDS, I)
    with torch.no_grad():
        steps = PackedStepper(layer, remembers)
        _, rows = steps.step(words, BeamState(), torch.zeros(count, dtype=torch.int64))
        for wrong in (WORDS, -1):
            with pytest.raises(IndexError):
                steps.step(words, rows, torch.full((count,), wrong))
        for wrong in (count, -1):
            with pytest.raises(IndexError):
                steps.step(words, rows.select(torch.full((count,), wrong)), torch.zeros(count, dtype=torch.int64))


def test_without_kernels(monkeypatch):
    layer, words = carousel.GRU(I, 8), torch.randn(WORDS, I)
    tokens, parents = torch.randint(WORDS, (9,)), torch.randint(3, (9,))
    with torch.no_grad():
        rows = PackedStepper(layer).step(words, BeamState(), torch.tensor([1, 2, 3]))[1].select(parents)
        fast, _ = PackedStepper(layer).step(words, rows, tokens)
        monkeypatch.setattr("carousel.layers.native.keep", lambda _: None)
        slow, _ = PackedStepper(layer).step(words, rows, tokens)
    torch.testing.assert_close(fast, slow)


@pytest.mark.parametrize("most", [InputProjectionCache.MOST, 500 * 72, 100])
def test_more_words_than_there_was_room_for(most, monkeypatch):
    monkeypatch.setattr(InputProjectionCache, "MOST", most)
    torch.manual_seed(0)
    theirs, layer, words = torch.nn.GRU(I, 24), carousel.GRU(I, 24), torch.randn(900, I)
    layer.load_state_dict(theirs.state_dict())
    with torch.no_grad():
        steps, rows, state = PackedStepper(layer, remembers=True), BeamState(), None
        for _ in range(4):
            tokens = torch.randint(900, (300,))
            y, rows = steps.step(words, rows, tokens)
            want, state = theirs(words[tokens].unsqueeze(0), state)
            torch.testing.assert_close(y, want[0])
        other = torch.randn(900, I)
        y, _ = steps.step(other, BeamState(), tokens)
        torch.testing.assert_close(y, theirs(other[tokens].unsqueeze(0))[0][0])


def test_several_threads_read_words():
    layer, words = carousel.LSTM(I, 24), torch.randn(900, I)
    steps = PackedStepper(layer, remembers=True)

    def read(seed):
        with torch.no_grad():
            tokens = torch.randint(900, (200,), generator=torch.Generator().manual_seed(seed))
            return steps.step(words, BeamState(), tokens)[0], layer(words[tokens].unsqueeze(0))[0][0]

    with ThreadPoolExecutor(4) as pool:
        for found, want in pool.map(read, range(16)):
            torch.testing.assert_close(found, want)
