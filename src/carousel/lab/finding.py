"""What every lab gives back: the claims, what was run, the numbers, and whether the claims hold."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ..files import replace_files, write_json
from ..ops.backend import isa
from ..report import Html, Page, prose
from .claim import Claim, Numbers, Verdict
from .words import power, text_table

_SYMBOL = re.compile(r"(\|\||)[^\W\d_]+\u0304?(?:[_^](?:\{[^{}]*\}|\*|[^\W_]+))+\1")
_LONG_INDEX = re.compile(r"([_^])([^\W_]{2,})")

Table = tuple[Sequence[str], Sequence[Sequence[Any]]]  # columns and rows


@dataclass(frozen=True)
class Step:
    """One step of a derivation, checked by the run: `numbers["derivation"][key]` is how far its two sides are apart; of
    an inequality, by how much the smaller side exceeds the larger one, 0 if it never does."""

    text: str
    tex: str
    key: str
    tolerance: float
    inequality: bool = False

    def result(self, apart: float) -> str:
        """What the run says of the step.

        >>> Step("", "", "", 1e-9, inequality=True).result(0.0)
        'In this run the inequality holds throughout.'
        """
        what, exact = ("the inequality holds", "throughout") if self.inequality else ("the two sides agree", "exactly")
        if apart == 0:
            return f"In this run {what} {exact}."
        if apart > self.tolerance:
            what = f"*{what.replace('holds', 'does not hold').replace('agree', 'do not agree')}*"
        size = "exceeded by at most {}" if self.inequality else "at most {} apart"
        return f"In this run {what}: {size.format(power(apart))} (tolerance {power(self.tolerance)})."


@dataclass(frozen=True)
class Exercise:
    """A question to the reader, and its answer, which the page keeps folded."""

    question: str
    answer: str


class Finding(ABC):
    """A lab's result. A lab gives the parts; the page and the files are made here, in the same way for all.

    `print(finding)` is what the command line shows, `numbers()` what a program reads and what numbers.json holds.
    Lead, table and verdicts are made from these numbers alone; `figures()` are plotly figures by name, the main one
    first.
    """

    name: ClassVar[str]  # carousel lab NAME
    title: ClassVar[str]
    claims: ClassVar[tuple[Claim, ...]]
    derivation: ClassVar[tuple[Step, ...]] = ()
    exercises: ClassVar[tuple[Exercise, ...]] = ()
    code: ClassVar[str] = ""  # Python that gives the main figure or number, ready to copy
    trains: ClassVar[bool] = False  # networks are trained: the last bits, which differ between processors, matter
    seconds: float | None = None

    @abstractmethod
    def numbers(self) -> dict[str, Any]:
        """Everything that was measured, as JSON can hold it; "seeds" lists the random seeds, if there are any."""

    @staticmethod
    @abstractmethod
    def lead(numbers: Numbers) -> str:
        """What came out, in a sentence or two."""

    @staticmethod
    @abstractmethod
    def table(numbers: Numbers) -> Table:
        """The main table: columns and rows."""

    @abstractmethod
    def setup(self) -> Sequence[str]:
        """What was run, in paragraphs."""

    @abstractmethod
    def render(self, page: Page) -> None:
        """Add the results to the page: figures, tables, text."""

    @abstractmethod
    def figures(self) -> dict[str, Any]: ...

    def __str__(self) -> str:
        return text_table(*self.table(self.measured))

    @cached_property
    def measured(self) -> Numbers:
        """The numbers exactly as numbers.json holds them."""
        return json.loads(json.dumps(self.numbers(), allow_nan=False))

    def verdicts(self) -> dict[str, Verdict]:
        """The verdict on each claim, by its key."""
        return {claim.key: claim.verdict(self.measured) for claim in self.claims}

    def decision(self) -> str:
        """Each claim with its place and the verdict, as the command line shows them."""
        verdicts = self.verdicts()
        return "\n\n".join(f"“{claim.quote}” ({claim.where})\n{verdicts[claim.key]}" for claim in self.claims)

    def plot(self) -> Any:
        """The main figure."""
        return next(iter(self.figures().values()))

    def facts(self) -> dict[str, str]:
        """Further entries for the foot of the page, by name."""
        return {}

    def page(self, command: str | None = None) -> Page:
        """The report, on one page that works offline; `command` is the one that gives it."""
        page = Page(self.title, self.lead(self.measured))
        page.heading("The claim" if len(self.claims) == 1 else "The claims")
        for claim in self.claims:
            page.quote(typeset(f"“{claim.quote}”"), claim.source)
            page.equation(*claim.printed, label="as printed")
            page.equation(*claim.corrected, label="corrected")
            page.text(typeset(f"Decided by: {claim.criterion}"))
        page.heading("What was run").text(*self.setup())
        self._derive(page)
        self.render(page)
        page.heading("Does it hold?" if len(self.claims) == 1 else "Do they hold?")
        if any(claim.seeds > 1 for claim in self.claims):
            page.text("Where seeds decide, a verdict is about the random seeds of this run; others can give another.")
        for claim in self.claims:
            page.quote(typeset(f"“{claim.quote}”")).text(_emphasised(self.verdicts()[claim.key]))
        if self.exercises:
            page.heading("Exercises")
        for number, exercise in enumerate(self.exercises, 1):
            page.text(f"{number}. {exercise.question}").details("Answer", exercise.answer)
        if self.code:
            page.heading("The code").text("It gives the figure, or the number that matters; copy it.")
            page.code(self.code.strip())
        minutes = None if self.seconds is None else self.seconds / 60
        return page.footer(command or f"carousel lab {self.name}", None, minutes, **self._facts())

    def _derive(self, page: Page) -> None:
        """The derivation, each step with the difference between its two sides in this run."""
        if self.derivation:
            page.heading("The derivation, step by step")
        for step in self.derivation:
            page.text(step.text).equation(step.tex).text(step.result(self.measured["derivation"][step.key]))

    def _facts(self) -> dict[str, str]:
        facts = {}
        if seeds := self.measured.get("seeds"):
            facts["Random seeds"] = ", ".join(map(str, seeds))
        if self.trains:
            facts["Instruction set"] = (
                f"{isa()}; training amplifies the last bits, so another instruction set or number of threads gives "
                "other figures"
            )
        return facts | self.facts()

    def write(self, folder: str | Path, command: str | None = None) -> Path:
        """Write index.html, every figure as SVG and PNG, and numbers.json to `folder`; returns the page's path."""
        with replace_files(folder) as part:
            self.fill(part, command)
        return Path(folder) / "index.html"

    def fill(self, folder: Path, command: str | None = None) -> None:
        """Write the same to a directory that is there already, file by file."""
        from ..pictures import save

        write_json(folder / "numbers.json", self.saved())
        for name, figure in self.figures().items():
            for ending in (".svg", ".png"):
                save(figure, folder / f"{name}{ending}")
        self.page(command).write(folder / "index.html")

    def saved(self) -> dict[str, Any]:
        """What numbers.json holds: the lab's name, the verdict on each claim, and the numbers."""
        verdicts = {
            key: {"outcome": verdict.outcome, "cases": verdict.cases, "reason": verdict.reason}
            for key, verdict in self.verdicts().items()
        }
        return {"lab": self.name, "isa": isa(), "verdicts": verdicts, **self.measured}


def short_run(name: str, arguments: str) -> str:
    """The code of a page whose figure is the lab's own: a short run of it.

    >>> print(short_run("working-memory", "seeds=1").splitlines()[2])
    result = lab.working_memory(seeds=1)
    """
    call = f"lab.{name.replace('-', '_')}({arguments})"
    return f"from carousel import lab\n\nresult = {call}\nprint(result)\nfigure = result.plot()\n"


def typeset(quote: str) -> str:
    """A quotation with its symbols, such as W_h and f_t^{(d)}, marked as formulas for a page.

    >>> print(typeset("h_{t-1} is aligned with U_f^{(d)} , and ||W_h|| is 1"))
    \\(h_{t-1}\\) is aligned with \\(U_f^{(d)}\\) , and \\(\\|W_h\\|\\) is 1
    >>> print(typeset("∂L/∂W_ij"))
    ∂L/∂\\(W_{ij}\\)
    """
    tex = {"||": r"\|", "max_": r"\max_", "C\u0304": r"\bar{C}"}

    def marked(match: re.Match[str]) -> str:
        symbol = match[0]
        for plain, command in tex.items():
            symbol = symbol.replace(plain, command)
        symbol = _LONG_INDEX.sub(r"\1{\2}", symbol)
        return f"\\({symbol}\\)"

    return _SYMBOL.sub(marked, quote)


def _emphasised(verdict: Verdict) -> Html:
    short = verdict.short[0].upper() + verdict.short[1:]
    return Html(f"<em>{prose(typeset(short))}.</em> {prose(typeset(verdict.reason))}")
