"""The place of a time in the cycles of the calendar: the day, the week and the year."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

CYCLES = {"day": 86_400, "week": 604_800, "year": 31_556_952}  # seconds; a year's is its mean
MONTH = CYCLES["year"] // 12


def cycles_of(unit: str, step: int, season: int, rows: int, times: int = 3) -> list[str]:
    """The cycles that are longer than two steps, other than the season, and that `rows` rows go through `times` times.

    >>> cycles_of("second", 86_400, 7, 3000), cycles_of("second", 3600, 24, 14_000), cycles_of("row", 1, 7, 3000)
    (['year'], ['week'], [])
    """
    if unit == "row":
        return []
    seconds = step * {"month": MONTH, "second": 1, "microsecond": 1e-6}[unit]
    return [
        name
        for name, length in CYCLES.items()
        if length > 2 * seconds and rows * seconds >= times * length and not np.isclose(length / seconds, season, 0.01)
    ]


def calendar(ticks: np.ndarray, unit: str, cycles: Sequence[str]) -> np.ndarray:
    """Sine and cosine of the place of each tick in each cycle: (T,) → (T, 2 · cycles) float64.

    >>> calendar(np.array([12 * 1950, 12 * 1950 + 3]), "month", ["year"]).round(6).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    parts = []
    for name in cycles:
        if unit == "month":
            place = ticks % 12 / 12
        else:
            seconds = ticks if unit == "second" else ticks // 1_000_000
            place = seconds % CYCLES[name] / CYCLES[name] if name != "year" else _place_in_year(seconds)
        parts += [np.sin(2 * np.pi * place), np.cos(2 * np.pi * place)]
    return np.stack(parts, 1) if parts else np.empty((len(ticks), 0))


def _place_in_year(seconds: np.ndarray) -> np.ndarray:
    years = seconds.astype("datetime64[s]").astype("datetime64[Y]")
    first, following = (y.astype("datetime64[s]").astype(np.int64) for y in (years, years + 1))
    return (seconds - first) / (following - first)
