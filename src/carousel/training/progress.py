"""What a run prints while it trains: a line for each epoch; in between a bar on a terminal, or one line per minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from ..progress import Progress as Reading
from ..progress import listening

MINUTE = 60.0  # seconds between lines where there is no terminal
FIRST = 0.8  # seconds of preparation before its progress is shown


class Bar(ProgressBar):
    """Epoch, loss, tokens per second and the time left to the end of the run; `clock` gives seconds."""

    def __init__(self, quiet: bool = False, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__()
        self.clock = clock
        self.console = Console(stderr=True, highlight=False, quiet=quiet)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[status]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=self.console,
            transient=True,
            disable=quiet or not self.console.is_terminal,
        )
        self.count = 0
        self.since = self.shown = 0.0

    def say(self, line: str, style: str | None = None) -> None:
        self.console.print(line, style=style, markup=False, soft_wrap=True)

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """Show how far the data has been read: nothing in the first second, then a bar, or lines."""
        begun, shown = self.clock(), 0.0
        bar = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=24), DownloadColumn(),
            TimeRemainingColumn(compact=True), console=self.console, transient=True, disable=self.bar.disable,
        )  # fmt: skip
        task = bar.add_task("", start=True)

        def show(progress: Reading) -> None:
            nonlocal shown
            now = self.clock()
            if now - begun < FIRST or (shown and now - shown < (MINUTE if bar.disable else 0.1)):
                return
            shown = now
            name = f"{progress.stage} {progress.path.name}"
            if bar.disable:
                of = "" if progress.total is None else f" of {progress.total / 1e6:,.0f}"
                self.say(f"{name}: {progress.done / 1e6:,.0f}{of} MB")
                return
            bar.start()
            bar.update(task, description=name, completed=progress.done, total=progress.total)

        try:
            with listening(show):
                yield
        finally:
            bar.stop()

    def disable(self) -> None:
        """Called by Lightning on every process but the first."""
        self.console.quiet = True
        self.bar.disable = True

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        total = int(trainer.num_training_batches) * (trainer.max_epochs or 1)
        done = trainer.fit_loop.epoch_loop.total_batch_idx + 1
        self.task = self.bar.add_task("", total=total, completed=done, status="")
        self.bar.start()
        self.total, self.first = total, done  # batches of the whole run, and those before this process
        self.begun = self.since = self.shown = self.clock()
        self.count = 0

    def on_train_batch_end(self, trainer: Trainer, module: Any, outputs: Any, batch: Any, index: int) -> None:
        self.count += module.last.weight
        now = self.clock()
        if self.console.quiet or now - self.shown < (MINUTE if self.bar.disable else 0.1):
            return
        self.shown = now
        rate = self.count / max(1e-9, now - self.since)
        epoch = f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs}"
        done = trainer.current_epoch * int(trainer.num_training_batches) + index + 1
        status = f"{module.network.describe_loss()(module.recent)}  {rate:,.0f} {module.network.unit}/s"
        if not self.bar.disable:
            self.bar.update(self.task, description=epoch, completed=done, status=status)
            return
        left = (now - self.begun) / max(1, done - self.first) * (self.total - done)
        self.say(f"{epoch}  step {done:,}/{self.total:,}  {status}  {_duration(left)} left")

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.rate = self.count / max(1e-9, self.clock() - self.since)

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        self.since, self.count = self.clock(), 0  # the rate is training's, so reading the dev set is left out

    def on_exception(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> None:
        self.bar.stop()

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        self.bar.stop()


def _duration(seconds: float) -> str:
    """A time in hours and minutes.

    >>> _duration(20), _duration(300), _duration(7 * 3600 + 125)
    ('1 min', '5 min', '7 h 02 min')
    """
    minutes = max(1, round(seconds / 60))
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
