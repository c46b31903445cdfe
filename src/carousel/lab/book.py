"""All labs in one book: a page for each, and one that leads to them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import ArgumentError
from ..files import replace_text_file
from ..report import Page
from . import LABS, module_of
from .claim import Outcome
from .finding import Finding
from .words import listing


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
            outcomes = ", ".join(verdict.short for verdict in one.verdicts().values())
            say(f"{name:{max(map(len, LABS))}}  {outcomes:25}  {time.monotonic() - began:5.1f} s")
        file.write(contents(found).footer(command, minutes=(time.monotonic() - start) / 60).html())
    return folder / "index.html"


def contents(findings: Sequence[Finding]) -> Page:
    """The page that leads to all: what became of each claim, at a glance and in words."""
    verdicts = [(one, verdict) for one in findings for verdict in one.verdicts().values()]
    counts = [(outcome, sum(verdict.outcome is outcome for _, verdict in verdicts)) for outcome in Outcome]
    page = Page("The lab", f"{len(verdicts)} claims of the sources: {listing(f'{n} {o}' for o, n in counts if n)}.")
    rows = [[one.title, one.name, verdict.short] for one, verdict in verdicts]
    page.heading("At a glance").table(["", "`carousel lab`", "the claim"], rows)
    for one in findings:
        page.heading(one.title).text(one.page().lead)
        page.link("The claims, what was run, and the results", f"{one.name}/index.html")
    return page
