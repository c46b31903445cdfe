"""The fused layer against a loop over the cells' steps: every cell, every option, awkward shapes."""

from __future__ import annotations

import pytest
import torch
from helpers.harness import CELLS, Case, compare
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EDGES = [1, 2, 3, 5, 6, 7, 8, 9, 12, 13, 15, 16, 17, 19, 24, 31, 32, 33]  # tile and vector edges, primes


@st.composite
def cases(draw: st.DrawFn) -> Case:
    cell = CELLS[draw(st.sampled_from(sorted(CELLS)))]
    T, B, H = draw(st.integers(1, 6)), draw(st.sampled_from(EDGES)), draw(st.sampled_from(EDGES))
    projects = cell.projects and H > 1 and draw(st.booleans())
    return Case(
        cell, T, B, draw(st.sampled_from(EDGES)), H,
        P=draw(st.integers(1, H - 1)) if projects else None,
        D=draw(st.sampled_from([1, 2])),
        bias=draw(st.booleans()),
        state=draw(st.booleans()),
        lengths=draw(st.none() | st.lists(st.integers(0, T), min_size=B, max_size=B)),
        reset=draw(st.booleans()),
        learn_initial=draw(st.booleans()),
        mask=draw(st.booleans()),
        zoneout=draw(st.none() | st.sampled_from([(0.3, 0.2), (0.0, 0.5)])),
        training=draw(st.booleans()),
        dtype=draw(st.sampled_from([torch.float32, torch.float64])),
        seed=draw(st.integers(0, 99)),
    )  # fmt: skip


@given(cases(), st.sampled_from([1, 2, 3]))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
def test_any_call(case: Case, threads: int) -> None:
    torch.set_num_threads(threads)
    compare(case, 1e-12 if case.dtype == torch.float64 else 1e-5)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize(
    "shape", [(3, 20, 7, 200), (9, 1, 5, 130), (40, 16, 3, 24), (4, 9, 3, 450), (1, 1, 1001, 130), (2, 2, 701, 48)]
)
def test_larger_shapes(name: str, shape: tuple[int, int, int, int]) -> None:
    """Enough rows for several tiles, chunks and blocks; weights on either side of the choice how threads share."""
    T, B, I, H = shape
    compare(Case(CELLS[name], T, B, I, H, D=2, lengths=[(5 * b) % (T + 1) for b in range(B)]), 1e-12)


@pytest.mark.parametrize("name", ["lstm", "layernorm"])
def test_projection_shared_by_threads(name: str) -> None:
    compare(Case(CELLS[name], T=3, B=10, I=5, H=400, P=70), 1e-12)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("shape", [(3, 7, 1001, 37), (2, 2, 1001, 70)])
def test_units_shared_by_threads(name: str, threads: int, shape: tuple[int, int, int, int]) -> None:
    """The large input makes a call of few rows work enough for several threads."""
    torch.set_num_threads(threads)
    compare(Case(CELLS[name], *shape), 1e-12)


@pytest.mark.parametrize("name", ["lstm", "gru"])
@pytest.mark.parametrize("H", [3, 6, 12])  # two vectors of 128, 256 and 512 bits, the second not full
def test_few_rows_and_a_thread_without_units(name: str, H: int) -> None:
    compare(Case(CELLS[name], T=2, B=2, I=8001, H=H), 1e-12)
