"""What is written while a run trains: the log, checkpoints, the best weights. When it stops: early, or on Ctrl-C."""

from __future__ import annotations

import json
import math
import signal
import time
from contextlib import suppress
from types import FrameType
from typing import Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import Checkpoint
from safetensors.torch import save

from ..errors import CarouselError
from ..files import write_bytes
from ..wording import counted, minutes, setting
from . import distributed
from .csv_logger import CSVLogger
from .manifest import weights_digest
from .module import Diverged, Module
from .progress import Bar
from .run import Run


class Interrupted(CarouselError):
    """The run was asked to stop, by a signal; everything up to `step` is kept. `code` is the exit code."""

    def __init__(self, step: int, number: int = signal.SIGINT) -> None:
        super().__init__(f"stopped at step {step}")
        self.step = step
        self.code = 128 + number


class CheckpointCallback(Checkpoint):
    """Saves a run. Lightning calls it last of all callbacks, so that what it writes is up to date."""

    def __init__(self, run: Run, csv: CSVLogger, bar: Bar) -> None:
        self.run = run
        self.csv = csv
        self.bar = bar
        self.best: float | None = None  # the dev metric of the best epoch
        self.best_tie = math.inf  # its value of the metric's tie breaker
        self.best_epoch = -1
        self.choice = ("", False)  # `Network.describe_choice` then
        self.waited = 0  # epochs since then
        self.seconds = 0.0  # spent so far, before this process too
        self.wanted: signal.Signals | None = None  # by what the run was asked to stop
        self._saved = self._started = time.monotonic()
        self._kept_step = 0
        self._handlers: dict[int, Any] = {}  # of signals, before ours

    @property
    def minutes(self) -> float:
        """Spent on the run so far."""
        return (self.seconds + time.monotonic() - self._started) / 60

    # ---------------------------------------------------------------- state

    def state_dict(self) -> dict[str, Any]:
        spent = self.seconds + time.monotonic() - self._started
        kept = {name: getattr(self, name) for name in ("best", "best_tie", "best_epoch", "choice", "waited")}
        return {**kept, "seconds": spent, "metrics": self.csv.text}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in ("best", "best_tie", "best_epoch", "choice", "waited", "seconds"):
            if name in state:  # checkpoints of older versions have no choice
                setattr(self, name, state[name])
        self.csv.restore(state["metrics"])

    # ---------------------------------------------------------------- Lightning calls

    def on_fit_start(self, trainer: Trainer, module: Any) -> None:
        self._started = self._saved = time.monotonic()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(ValueError):  # not in the main thread, where signals arrive
                self._handlers[number] = signal.signal(number, self._interrupt)

    def on_train_start(self, trainer: Trainer, module: Any) -> None:
        self._kept_step = trainer.global_step
        if self._out_of_patience(module):  # it was killed after it had decided to stop
            trainer.should_stop = True

    def on_train_batch_start(self, trainer: Trainer, module: Any, batch: Any, index: int) -> None:
        module.wishes = (self._due(module), self.wanted is not None)

    def _due(self, module: Module) -> bool:
        return time.monotonic() - self._saved > 60 * module.settings.checkpoint_minutes

    def _agreed(self, module: Module) -> tuple[bool, bool]:
        """Whether to save, and whether to stop: if one of several processes is to, all are."""
        return (self._due(module), self.wanted is not None) if distributed.size() == 1 else module.agreed

    def on_train_batch_end(self, trainer: Trainer, module: Any, outputs: Any, batch: Any, index: int) -> None:
        settings = module.settings
        if not self.run.started:  # before its first step there is nothing to lose
            self.run.mark_started()
        if (index + 1) % settings.accumulate and not trainer.is_last_batch:
            return  # a step is under way: its gradients are not part of a checkpoint
        if trainer.global_step % settings.log_steps == 0:
            self._log_training(trainer, module)
        if trainer.is_last_batch:
            return  # the dev set comes first; see on_train_epoch_end
        due, stop = self._agreed(module)
        if due or stop:
            self._save(trainer, module)
        if stop:
            raise self._interrupted(trainer.global_step)

    def on_train_epoch_end(self, trainer: Trainer, module: Any) -> None:
        if module.sums[1]:
            self._log_training(trainer, module)
        self._judge(trainer, module)
        self._save(trainer, module)
        if distributed.total([float(self.wanted is not None)])[0]:
            raise self._interrupted(trainer.global_step)
        if self._out_of_patience(module):
            self.bar.say(f"no improvement for {counted(self.waited, 'epoch')}; stopping")
            trainer.should_stop = True

    def on_train_end(self, trainer: Trainer, module: Any) -> None:
        if self.choice[0]:
            self.bar.say(f"epoch {self.best_epoch}: {self.choice[0]}")
        epochs = trainer.current_epoch
        perfect = self.best == (0 if module.network.metric().lower_is_better else 1)
        if self.best is not None and not perfect and epochs > 1 and self.waited >= epochs - 1:
            metric = module.network.metric()
            what = f"dev {metric.label(module.best)} never improved on {self.best:.4g}, its value after the first epoch"
            if self.best_epoch > 1:
                what += f"; epoch {self.best_epoch} is best by {metric.label(metric.tie_breaker)} alone"
            lr = f"another {setting('lr')} (it is {module.settings.lr:g})"
            remedy = f"try {lr} or more {setting('epochs')}; carousel check shows the data"
            if self.choice[1]:
                remedy = "the network adds nothing to it: try more training data or pre-trained word vectors"
            self.bar.say(f"{what}; {remedy}", "yellow")

    # ---------------------------------------------------------------- what they do

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:  # asked twice: at once, then
            raise self._interrupted(self._kept_step)
        self.wanted = signal.Signals(number)
        again = "press Ctrl-C again" if number == signal.SIGINT else f"send {self.wanted.name} again"
        self.bar.say(f"stopping after this step; {again} to stop without saving")

    def _interrupted(self, step: int) -> Interrupted:
        return Interrupted(step, self.wanted or signal.SIGINT)  # none if another process was asked

    def stop_listening(self) -> None:
        """Let signals do what they did before the run."""
        while self._handlers:
            signal.signal(*self._handlers.popitem())

    def _log_training(self, trainer: Trainer, module: Module) -> None:
        row = {"loss": module.recent, "gradient": module.gradient, "lr": module.lr}
        for logger in trainer.loggers:
            logger.log_metrics({"epoch": trainer.current_epoch + 1, **row}, step=trainer.global_step)
        module.sums, module.gradient = [0.0, 0.0], 0.0

    def _judge(self, trainer: Trainer, module: Module) -> None:
        """Log the dev set's results, and keep the weights if they are the best so far (or if there is no dev set)."""
        network, results = module.network, module.dev_results
        epoch = trainer.current_epoch + 1
        if trainer.val_dataloaders is None:
            self.best_epoch = epoch
            self._keep_weights(module, {"epoch": epoch})
            self.bar.say(f"epoch {epoch}/{trainer.max_epochs}  {network.describe_loss()(module.last.loss)}")
            return
        for logger in trainer.loggers:
            logger.log_metrics(
                {"epoch": epoch, **{f"dev_{k}": v for k, v in results.items()}}, step=trainer.global_step
            )
        metric = network.metric()
        value, tie = results[module.best], results.get(metric.tie_breaker, math.inf)
        improved = self._is_better(value, module.lower_is_better)
        better = improved or (value == self.best and tie < self.best_tie)
        self.waited = 0 if improved else self.waited + 1
        if better:
            self.best, self.best_tie, self.best_epoch = value, tie, epoch
            self.choice = network.describe_choice()
            self._keep_weights(module, {"epoch": epoch, f"dev_{module.best}": value})
        shown = "  ".join(f"dev {metric.label(name)} {number:.4g}" for name, number in results.items())
        rate = f"{self.bar.rate:,.0f} {network.unit}/s"
        mark = "" if not better else "  best" if improved else f"  best by {metric.label(metric.tie_breaker)}"
        self.bar.say(f"epoch {epoch}/{trainer.max_epochs}  {shown}  {rate}  {minutes(self.minutes)} min{mark}")

    def _is_better(self, value: float, lower_is_better: bool) -> bool:
        if self.best is None:
            return True
        if math.isnan(self.best) or math.isnan(value):  # anything is better than no number
            return not math.isnan(value)
        return value < self.best if lower_is_better else value > self.best

    def _keep_weights(self, module: Module, info: dict[str, Any]) -> None:
        if distributed.rank():
            return
        # One entry of metadata: several are written in any order, and the same weights should be the same file.
        with module.best_weights():
            weights = {name: t.contiguous() for name, t in module.network.state_dict().items()}
            metadata = {"carousel": json.dumps({**info, "digest": weights_digest(weights)})}
            data = save(weights, metadata=metadata)
        write_bytes(self.run.weights, data)

    def _save(self, trainer: Trainer, module: Module) -> None:
        for name, parameter in module.network.named_parameters():
            if not torch.isfinite(parameter).all():
                raise Diverged(f"{name} is no longer finite at step {trainer.global_step}")
        trainer.save_checkpoint(self.run.checkpoints)
        self._saved, self._kept_step = time.monotonic(), trainer.global_step

    def _out_of_patience(self, module: Module) -> bool:
        patience = module.settings.patience
        return patience is not None and self.waited >= patience
