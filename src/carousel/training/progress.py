"""What a run says while it trains: a bar on a terminal, and one line for each epoch anywhere."""

from __future__ import annotations

import time
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class Bar(ProgressBar):
    """Epoch, loss, tokens a second and the time left to the end of the run."""

    def __init__(self, quiet: bool = False) -> None:
        super().__init__()
        self.console = Console(stderr=True, highlight=False, quiet=quiet)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[says]}"),
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

    def disable(self) -> None:
        """Lightning's wish on processes that are not the first."""
        self.console.quiet = True
        self.bar.disable = True

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        total = int(trainer.num_training_batches) * (trainer.max_epochs or 1)
        done = trainer.current_epoch * int(trainer.num_training_batches) + trainer.fit_loop.epoch_loop.batch_idx + 1
        self.task = self.bar.add_task("", total=total, completed=done, says="")
        self.bar.start()
        self.since, self.count = time.perf_counter(), 0

    def on_train_batch_end(self, trainer: Trainer, module: Any, outputs: Any, batch: Any, index: int) -> None:
        self.count += module.last.weight
        now = time.perf_counter()
        if self.bar.disable or now - self.shown < 0.1:
            return
        self.shown = now
        rate = self.count / (now - self.since)
        self.bar.update(
            self.task,
            description=f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs}",
            completed=trainer.current_epoch * int(trainer.num_training_batches) + index + 1,
            says=f"{module.network.describe_loss()(module.recent)}  {rate:,.0f} {module.network.unit}/s",
        )

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.rate = self.count / max(1e-9, time.perf_counter() - self.since)

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        self.since, self.count = time.perf_counter(), 0  # the rate is training's, so reading the dev set is left out

    def on_exception(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> None:
        self.bar.stop()

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        self.bar.stop()
