"""A small language model, trained by the engine on a corpus that the package makes: for labs that compare trainings.

The corpus is dates as people write them, in six languages, character by character.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback

from ..data.corpora.dates import split_dates, write_dates
from ..tasks.lm.network import LanguageNetwork
from ..tasks.lm.settings import LanguageSettings
from ..tasks.lm.task import LanguageTask
from ..training.csv_logger import read_metrics
from ..training.module import Diverged
from ..training.trainer import train

MODEL: dict[str, Any] = {
    "embedding": 16, "hidden": 32, "tied": False, "dropout": 0.0, "batch_size": 64, "epochs": 5, "log_steps": 5,
    "lr": 0.01, "threads": 1, "optimizer": "adam", "weight_decay": 0.0, "schedule": "constant", "warmup": 0.0,
    "unknown_singletons": 0.0,
}  # fmt: skip


@dataclass(frozen=True)
class Curve:
    """How a training went. Where it ended early, a loss was no longer a number."""

    steps: tuple[int, ...]
    losses: tuple[float, ...]  # of a character, in nats: the mean over the steps since the one before
    dev: tuple[float, ...]  # perplexity after each epoch
    diverged: bool

    @property
    def perplexity(self) -> float:
        """At the end."""
        return float("inf") if self.diverged or not self.dev else self.dev[-1]


class _Observer(Callback):
    """Calls `start` before training and `watch` before each update."""

    network: LanguageNetwork

    def __init__(self, start: Callable[[LanguageNetwork], None], watch: Callable[[LanguageNetwork], None]) -> None:
        self.start, self.watch = start, watch

    def on_fit_start(self, trainer: Any, module: Any) -> None:
        self.network = module.network
        with torch.no_grad():
            self.start(self.network)

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, index: int) -> None:
        self.watch(self.network)


class Corpus:
    """Dates in a folder that is there while it is needed, and models that read them."""

    def __init__(self, folder: Path, lines: int, seed: int) -> None:
        self.folder, self.lines, self.runs = folder, lines, 0
        learn, held_out = split_dates(500, seed)
        for name, dates, count in (("train", learn, lines), ("dev", held_out, len(held_out))):
            texts = [one.text for one in write_dates(dates, count, seed)]
            (folder / f"{name}.txt").write_text("\n".join(texts) + "\n", "utf-8")

    def train(
        self,
        start: Callable[[LanguageNetwork], None] = lambda network: None,
        watch: Callable[[LanguageNetwork], None] = lambda network: None,
        **settings: Any,
    ) -> tuple[LanguageNetwork, Curve]:
        """Train a network whose weights `start` may set; `watch` is called before each update, and after the last."""
        observer = _Observer(start, watch)
        self.runs += 1
        folder = self.folder / str(self.runs)
        files = {"train": self.folder / "train.txt", "dev": self.folder / "dev.txt", "cache": self.folder / "cache"}
        given = LanguageSettings.read({**MODEL, **files, "baseline": False, **settings})
        diverged = False
        with torch.random.fork_rng(devices=[]):
            try:
                train(LanguageTask, given, folder, callbacks=[observer], quiet=True, report=False)
            except Diverged:
                diverged = True
        watch(observer.network)
        rows = read_metrics(folder / "metrics.csv")
        logged = [row for row in rows if "loss" in row]
        return observer.network, Curve(
            tuple(int(row["step"]) for row in logged), tuple(row["loss"] for row in logged),
            tuple(row["dev_perplexity"] for row in rows if "dev_perplexity" in row), diverged,
        )  # fmt: skip


@contextmanager
def corpus(lines: int, seed: int) -> Iterator[Corpus]:
    """`lines` dates to train on, and 500 others to measure on."""
    with tempfile.TemporaryDirectory(prefix="carousel-lab-") as folder:
        yield Corpus(Path(folder), lines, seed)
