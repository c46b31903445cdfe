"""A lab whose result is its numbers and nothing else: figures, table and text are made from them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..report import Page
from .finding import Finding


@dataclass(frozen=True)
class Measured(Finding):
    """What such a lab gives. A subclass has `claims`, `lead`, `table`, `setup`, `figures`, and in `captions` the title
    and the text below each figure."""

    captions: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    data: Mapping[str, Any]
    seconds: float

    def numbers(self) -> dict[str, Any]:
        return {**self.data, "seconds": self.seconds}

    def render(self, page: Page) -> None:
        for name, drawn in self.figures().items():
            page.figure(drawn, *self.captions[name])
        page.table(*self.table(self.measured))


class Clock:
    """Seconds since it was made.

    >>> Clock().seconds >= 0
    True
    """

    def __init__(self) -> None:
        self.start = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.start
