"""The demo: a translator of dates as people write them into ISO form, on data that the package makes itself.

demo-dates/
  train.tsv dev.tsv test.tsv     pairs; no date of one file is in another
  run/                           what `carousel train translate` writes
  report.html                    results, attention, and the gates of the network
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.cells import cell_len, set_cell_size

from .data.corpora.dates import FIRST, FORMS, LAST, WrittenDate, split_dates, write_dates
from .files import replace_text_file
from .report import Page, duration

PAIRS, DEV, TEST = 60_000, 500, 2500  # each date of the last two in one form
SETTINGS: dict[str, Any] = {
    "tokens": "character", "lower": True, "bleu_tokenize": "char", "max_length": 60, "embedding": 64, "hidden": 64,
    "attention_size": 32, "dropout": 0.0, "label_smoothing": 0.0, "batch_size": 64, "lr": 0.005,
    "schedule": "linear", "epochs": 2, "log_steps": 100, "optimizer": "adam", "weight_decay": 0.0, "warmup": 0.0,
    "clip": 5.0, "average": 0.0,
}  # fmt: skip
EXAMPLES = (
    "the third of March, 1998",
    "Tuesday, March 3, 1998",
    "3.3.98",
    "Dienstag, den 3. März 1998",
    "le trois mars 1998",
    "el 3 de marzo de 1998",
    "üç Mart 1998",
    "一九九八年三月三日",
)
SHOWN = (0, 3, 7)  # examples whose attention the page shows


@dataclass
class Demo:
    """What came of it: the trained model, how many held-out dates of each language it gets right, and the rest."""

    folder: Path
    model: Any
    pairs: int
    minutes: float
    right: dict[str, tuple[int, int]]  # language → right, all
    wrong: list[tuple[WrittenDate, str]] = field(repr=False)
    examples: list[Any] = field(repr=False)

    @property
    def exact(self) -> float:
        """The share of held-out dates that are translated without a fault."""
        right, every = (sum(counts) for counts in zip(*self.right.values(), strict=True))
        return right / every

    def __str__(self) -> str:
        width = max(cell_len(one.source) for one in self.examples)
        lines = [f"{set_cell_size(one.source, width)}  →  {one.text}" for one in self.examples]
        every = sum(count for _, count in self.right.values())
        return "\n".join([*lines, "", f"{self.exact:.2%} of {every:,} held-out dates are right, to the last digit."])


def run(
    out: str | Path,
    *,
    seed: int = 0,
    quiet: bool = False,
    pairs: int = PAIRS,
    test: int = TEST,
    command: str = "carousel demo",
    **settings: Any,
) -> Demo:
    """Make the data, train, measure on dates that were held out, and write report.html, all in the folder `out`.

    `settings` are those of the translator, where they are to be others than the demo's own.
    """
    from .tasks.registry import find
    from .tasks.runs import load_run
    from .training import Run
    from .training.trainer import train

    out = Path(out)
    Run(out / "run").check_free(force=True)  # before anything is written
    learn, held = split_dates(DEV + test, seed)
    files = {"train": (learn, pairs), "dev": (held[:DEV], DEV), "test": (held[DEV:], test)}
    written = {}
    for number, (name, (dates, count)) in enumerate(files.items()):
        written[name] = list(write_dates(dates, count, 3 * seed + number))
        with replace_text_file(out / f"{name}.tsv") as file:
            file.writelines(f"{one.text}\t{one.date}\n" for one in written[name])
    given = {**SETTINGS, "seed": seed, "train": out / "train.tsv", "dev": out / "dev.tsv", **settings}
    task = find("translate")
    kept = train(task, task.Settings.read(given), out / "run", force=True, quiet=quiet, command=command.split())
    model: Any = load_run(kept.folder)
    right = {language: (0, 0) for language in FORMS}
    wrong = []
    translations = model.translate([one.text for one in written["test"]], num_beams=1)
    for one, translation in zip(written["test"], translations, strict=True):
        good, every = right[one.language]
        right[one.language] = good + (translation.text == str(one.date)), every + 1
        if translation.text != str(one.date):
            wrong.append((one, translation.text))
    examples = model.translate(EXAMPLES, attention=True)
    minutes = (kept.result or {})["minutes"]
    done = Demo(out, model, pairs, minutes, {name: n for name, n in right.items() if n[1]}, wrong, examples)
    page(done, command, seed).write(out / "report.html")
    return done


def program() -> str:
    """How this program is called from here: by its name, if the shell finds it."""
    own = Path(sys.argv[0])
    if shutil.which("carousel") is not None or own.name != "carousel":
        return "carousel"
    return os.path.relpath(own)


def page(done: Demo, command: str, seed: int) -> Page:
    """The report."""
    from .tasks.translate.report import gates_picture

    every = sum(count for _, count in done.right.values())
    document = Page(
        "Dates, as people write them",
        f"A translator of {done.model.size:,} parameters has read {done.pairs:,} dates in six languages, letter by "
        f"letter, in {duration(done.minutes)}. Of {every:,} dates that it never saw in any form it writes "
        f"*{done.exact:.2%}* without a fault.",
    )
    document.heading("Some of them").table(["date", "translation"], [[one.source, one.text] for one in done.examples])
    document.text("Your own:").code(f'echo "{EXAMPLES[0]}" | {program()} translate {done.folder / "run"}')
    for number in SHOWN:
        one = done.examples[number]
        document.figure(
            one.attention_picture(),
            f"{one.source} → {one.text}",
            "Where it looked: a row for each letter that was written, from above, a column for each that was read; the "
            "darker, the more of the attention.",
        )
    one = done.examples[0]
    document.figure(
        gates_picture(done.model, one),
        "What the decoder keeps meanwhile",
        f"{one.source} → {one.text}",
        "The decoder's forget gate and its cell, a row for each unit; below each step stands the letter that it reads. "
        "Where the gate is dark a unit drops what it held, where it is light it keeps it for the next step.",
    )
    rows = [[name, f"{good / count:.1%}", f"{count:,}"] for name, (good, count) in done.right.items()]
    document.heading("By language").text(
        f"Dates are of the years {FIRST.year} to {LAST.year}. 3.12.98 is day, month, year; 12/3/98 is month, day, year."
    ).table(["", "right", "held-out dates"], rows)
    if done.wrong:
        faults = [[one.text, str(one.date), translation] for one, translation in done.wrong[:12]]
        document.heading("What went wrong").text(f"{len(done.wrong):,} of {every:,}, some of them here.")
        document.table(["date", "it is", "translation"], faults)
    document.text("How training went: `run/report.html`.")
    return document.footer(command=command, seed=seed, minutes=done.minutes)
