"""What every lab gives back: the claim, what was run, what came out, and whether the claim stands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ..files import replace_files, write_json
from ..report import Page

# The texts whose claims are run, by the numbers that the documentation calls them by.
SOURCES = {
    "000": "M. Arora, ECE 684 Natural Language Processing, homework (2024)",
    "001": "J. Huang, 50.039 Theory and Practice of Deep Learning, theory homework 6 (2019)",
    "002": "Assignment 3 report: LSTM variants and Tang poems",
    "003": "M. Ş. Bilici, Recurrent Neural Networks, lecture notes",
    "004": "CIS 522, lecture 12: RNNs and LSTMs (2020)",
}


@dataclass(frozen=True)
class Claim:
    """What a text says: in a sentence or two, where (`003 §15.2`), and its equations in plain characters."""

    says: str
    where: str
    equations: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        number, _, place = self.where.partition(" ")
        return f"{SOURCES[number]} (text {number}), {place}"


@dataclass(frozen=True)
class Verdict:
    """Whether a claim stands, as far as a run can tell (None: it cannot), and the reason in words."""

    stands: bool | None
    says: str

    def __str__(self) -> str:
        return {
            True: "The claim holds.",
            False: "The claim does not hold as printed.",
            None: "This run does not settle the claim.",
        }[self.stands] + f" {self.says}"


class Finding(ABC):
    """A lab's result. A lab gives the parts; the page and the files are made here, alike for all.

    `print(finding)` is what the command line shows, `numbers()` what a program reads, `figures()` are plotly figures
    by name, the main one first.
    """

    name: ClassVar[str]  # carousel lab NAME
    title: ClassVar[str]
    claim: ClassVar[Claim]
    seed: int | None = None
    seconds: float | None = None

    @abstractmethod
    def __str__(self) -> str: ...

    @abstractmethod
    def lead(self) -> str:
        """What came out, in a sentence or two."""

    @abstractmethod
    def ran(self) -> Sequence[str]:
        """What was run, in paragraphs."""

    @abstractmethod
    def tell(self, page: Page) -> None:
        """Add what came out to the page: figures, tables, words."""

    @abstractmethod
    def verdict(self) -> Verdict: ...

    def decision(self) -> str:
        return str(self.verdict())

    def verdicts(self) -> dict[str, Any]:
        from . import claim

        verdict = self.verdict()
        make = {True: claim.holds, False: claim.fails, None: claim.undecided}[verdict.stands]
        return {"claim": make(verdict.says)}

    @abstractmethod
    def figures(self) -> dict[str, Any]: ...

    @abstractmethod
    def numbers(self) -> dict[str, Any]:
        """Everything that was found, as JSON can hold it."""

    def plot(self) -> Any:
        """The main figure."""
        return next(iter(self.figures().values()))

    def facts(self) -> dict[str, str]:
        """More that the page's foot should say, by name."""
        return {}

    def page(self, command: str | None = None) -> Page:
        """The report, on one page that works offline; `command` is the one that gives it."""
        page = Page(self.title, self.lead())
        page.heading("The claim").text(self.claim.says).text(*self.claim.equations).text(self.claim.source)
        page.heading("What was run").text(*self.ran())
        self.tell(page)
        page.heading("Does it hold?").text(str(self.verdict()))
        minutes = None if self.seconds is None else self.seconds / 60
        return page.footer(command or f"carousel lab {self.name}", self.seed, minutes, **self.facts())

    def write(self, folder: str | Path, command: str | None = None) -> Path:
        """Write index.html, every figure as SVG and PNG, and numbers.json to `folder`; returns the page's path."""
        with replace_files(folder) as part:
            self.fill(part, command)
        return Path(folder) / "index.html"

    def fill(self, folder: Path, command: str | None = None) -> None:
        """Write the same to a directory that is there already, file by file."""
        from ..pictures import save

        verdict = self.verdict()
        told = {"lab": self.name, "stands": verdict.stands, "verdict": verdict.says, **self.numbers()}
        write_json(folder / "numbers.json", told)
        for name, figure in self.figures().items():
            for ending in (".svg", ".png"):
                save(figure, folder / f"{name}{ending}")
        self.page(command).write(folder / "index.html")
