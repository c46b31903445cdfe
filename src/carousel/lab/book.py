"""All labs in one book: a page for each, and one that leads to them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import ArgumentError
from ..files import replace_text_file
from ..report import Page
from ..wording import counted
from . import LABS, module_of
from .finding import Finding

STANDS = {True: "holds", False: "does not hold as printed", None: "undecided"}


def write_book(
    folder: str | Path,
    names: Sequence[str] = tuple(LABS),
    *,
    command: str = "carousel lab all",
    say: Callable[[str], None] = lambda line: None,
) -> Path:
    """Run each of the labs `names` as it is by default; write `folder`/NAME/index.html and `folder`/index.html.

    `say` is called with a line for each that is done. Returns the path of the page that leads to all.
    """
    folder, start = Path(folder), time.monotonic()
    unknown = [name for name in names if name not in LABS]
    if unknown or not names:
        raise ArgumentError(f"names must be some of {', '.join(LABS)}; got {', '.join(unknown) or 'none'}")
    found: list[Finding] = []
    with replace_text_file(folder / "index.html") as file:  # that it can be written is tried first
        for name in names:
            began = time.monotonic()
            one = module_of(name).run()
            one.write(folder / name)
            found.append(one)
            verdict = STANDS[one.verdict().stands]
            say(f"{name:{max(map(len, LABS))}}  {verdict:25}  {time.monotonic() - began:5.1f} s")
        file.write(contents(found).footer(command, minutes=(time.monotonic() - start) / 60).html())
    return folder / "index.html"


def contents(found: Sequence[Finding]) -> Page:
    """The page that leads to all: what became of each claim, at a glance and in words."""
    verdicts = [one.verdict() for one in found]
    counts = [sum(verdict.stands is it for verdict in verdicts) for it in STANDS]
    stand, fall = counted(counts[0], "holds", "hold"), counted(counts[1], "does not hold", "do not hold")
    undecided = counted(counts[2], "is", "are")
    page = Page(
        "The lab",
        f"Of {len(found)} claims of the textbook that were run, {stand}, {fall} as printed, and {undecided} undecided.",
    )
    rows = [[one.title, one.name, STANDS[verdict.stands]] for one, verdict in zip(found, verdicts, strict=True)]
    page.heading("At a glance").table(["", "`carousel lab`", "the claim"], rows)
    for one, verdict in zip(found, verdicts, strict=True):
        page.heading(one.title).text(one.lead(), f"{one.claim.source}: *{STANDS[verdict.stands]}*.")
        page.link("The claim, what was run, and what came out", f"{one.name}/index.html")
    return page
