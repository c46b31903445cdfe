"""All labs in one book: a page for each lab, and a table of contents in the order of the sources."""

from __future__ import annotations

import os
import re
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import torch

from ..errors import ArgumentError
from ..files import write_text
from ..parsing import parse_json
from ..report import Html, Page, prose
from ..version import __version__
from . import LABS, finding_class, module_of, verdicts
from .claim import HEADINGS, SOURCES, Outcome
from .finding import typeset
from .words import listing

SLOW = ("languages", "optimizers", "initialisation", "latch", "attention")  # several workers begin with these
QUOTED = 110  # characters of a claim in the table of contents
WORDING = {  # of one claim, and of several
    Outcome.HOLDS: ("holds", "hold"),
    Outcome.HOLDS_FOR: ("holds for some cases", "hold for some cases"),
    Outcome.FAILS: ("does not hold as printed", "do not hold as printed"),
    Outcome.UNDECIDED: ("is not decided by this run", "are not decided by this run"),
}


def write_book(
    folder: str | Path,
    names: Sequence[str] = (),
    *,
    quick: bool = False,
    resume: bool = False,
    workers: int = 1,
    command: str = "carousel lab all",
    done: Callable[[str, str, float], None] = lambda name, outcomes, seconds: None,
) -> Path:
    """Run each of the labs `names` (default: all) and write `folder`/NAME/index.html and `folder`/index.html.

    With `quick`, each lab runs with its QUICK arguments. The table of contents is written after every lab, so that
    an interruption keeps what is done; with `resume`, labs that the same version has done before are not run again.
    `workers` labs run at the same time. `done(name, outcomes, seconds)` is called after each. Returns the path of the
    table of contents.
    """
    folder, start = Path(folder), time.monotonic()
    names = names or tuple(LABS)
    if unknown := [name for name in names if name not in LABS]:
        raise ArgumentError(f"names must be some of {', '.join(LABS)}; got {', '.join(unknown)}")
    index = folder / "index.html"
    todo = unfinished(folder, names, quick) if resume else names
    _write_contents(index, folder, names, command, 0.0)  # that it can be written is known before the work begins
    for name, seconds in _run_all(folder, todo, quick, workers):
        outcomes = ", ".join(dict.fromkeys(verdict.short for verdict in verdicts(folder / name).values()))
        _write_contents(index, folder, names, command, time.monotonic() - start)
        done(name, outcomes, seconds)
    return index


def _run_all(folder: Path, names: Sequence[str], quick: bool, workers: int) -> Iterator[tuple[str, float]]:
    """Run labs and write their pages; gives the name and seconds of each as it is done."""
    if workers == 1:
        for name in names:
            yield name, run_one(folder, name, quick)
        return
    others = set(active_children())
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_prepare_worker) as pool:
        ordered = sorted(names, key=lambda name: name not in SLOW)
        futures: dict[Future[float], str] = {pool.submit(_run_in_worker, folder, name, quick): name for name in ordered}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in set(active_children()) - others:
                worker.terminate()
            raise


def _prepare_worker() -> None:
    """One thread; an interruption is the parent's to handle, and to be terminated is an exception."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def _run_in_worker(folder: Path, name: str, quick: bool) -> float:
    """A lab in a process that ends, leaving nothing behind, when it is terminated: it must not begin the next lab."""
    try:
        return run_one(folder, name, quick)
    except SystemExit:
        os._exit(1)


def unfinished(folder: Path, names: Sequence[str], quick: bool) -> list[str]:
    """The labs that this version has not written to `folder` yet, with the same arguments."""
    return [name for name in names if not _is_done(folder / name, quick)]


def run_one(folder: Path, name: str, quick: bool) -> float:
    """Run one lab and write its page and numbers; returns the seconds it took."""
    began = time.monotonic()
    module = module_of(name)
    finding = module.run(**(getattr(module, "QUICK", {}) if quick else {}))
    finding.write(folder / name)
    write_text(folder / name / "made.json", f'{{"version": "{__version__}", "quick": {str(quick).lower()}}}\n')
    return time.monotonic() - began


def _is_done(folder: Path, quick: bool) -> bool:
    """Whether this version has written the lab before, with the same arguments."""
    made = folder / "made.json"
    if not made.is_file() or not (folder / "numbers.json").is_file():
        return False
    return parse_json(made.read_text("utf-8")) == {"version": __version__, "quick": quick}


def _write_contents(index: Path, folder: Path, names: Sequence[str], command: str, seconds: float) -> None:
    finished = [name for name in names if (folder / name / "numbers.json").is_file()]
    page = contents(folder, finished)
    if left := [name for name in names if name not in finished]:
        page.heading("Not run yet").text(f"{listing(left)}.")
    page.footer(command, minutes=seconds / 60).write(index)


def contents(folder: Path, names: Sequence[str]) -> Page:
    """The table of contents, from the numbers that the labs have saved: by source and place, with each verdict."""
    rows: dict[str, list[list[Any]]] = {}
    counts: dict[Outcome, int] = dict.fromkeys(Outcome, 0)
    for name in names:
        kind, decided = finding_class(name), verdicts(folder / name)
        for claim in kind.claims:
            verdict = decided[claim.key]
            counts[verdict.outcome] += 1
            number, _, place = claim.where.partition(" ")
            quote = textwrap.shorten(claim.quote, QUOTED, placeholder=" …")
            rows.setdefault(number, []).append(
                [place, typeset(f"“{quote}”"), _link(kind.title, name), typeset(verdict.short)]
            )
    total = sum(counts.values())
    parts = [f"{count} {WORDING[outcome][count > 1]}" for outcome, count in counts.items() if count]
    page = Page("The lab", f"Of {total} claims of the sources, {listing(parts)}." if parts else "Nothing was run yet.")
    for number in sorted(rows):
        page.heading(f"{number}: {SOURCES[number]}")
        ordered = sorted(rows[number], key=partial(_row_place, number))
        page.table(["place", "claim", "lab", "verdict"], ordered)
    for name in names:
        numbers = parse_json((folder / name / "numbers.json").read_text("utf-8"))
        kind = finding_class(name)
        page.heading(kind.title).text(kind.lead(numbers)).link(
            "The claims, what was run, the results", f"{name}/index.html"
        )
    return page


def _link(text: str, name: str) -> Html:
    return Html(f'<a href="{name}/index.html">{prose(text)}</a>')


def _row_place(source: str, row: Sequence[Any]) -> tuple[list[int], list[int]]:
    return _place(source, row[0])


def _place(source: str, text: str) -> tuple[list[int], list[int]]:
    """Orders places as the source does: by section or heading, then by the number of an equation or figure.

    >>> sorted(["§15.1", "§5.2", "§5.1, equation 17", "§5.1, equation 7"], key=partial(_place, "003"))
    ['§5.1, equation 7', '§5.1, equation 17', '§5.2', '§15.1']
    """
    section, _, rest = text.partition(", ")
    if source in HEADINGS:
        order = [HEADINGS[source].index(section)]
    else:
        order = [int(number) for number in re.findall(r"[\d.]*\d", section)[0].split(".")]
    return order, [int(number) for number in re.findall(r"\d+", rest)[:1]]
