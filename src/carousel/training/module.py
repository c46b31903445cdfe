"""A task as Lightning sees it: steps, optimizer, the dev set, and the state that makes a run exactly resumable."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from lightning.pytorch import LightningModule
from torch import Tensor

from ..errors import CarouselError, RunError
from ..wording import counted, setting
from . import distributed
from .data import Batches
from .network import Network
from .optimizers import clip_norm, make_optimizer, make_schedule
from .settings import shown


class BatchLoss(NamedTuple):
    """What is remembered of a batch: its mean loss and how many things it was the mean of."""

    loss: float
    weight: int


class Diverged(CarouselError, ValueError):
    """The loss or the gradient is no longer a number."""


class Module(LightningModule):
    """Trains `network`; `recent` is the mean loss since the last line of the log, `last` that of the last batch.

    Everything that a checkpoint needs beyond Lightning's own is in `on_save_checkpoint`: torch's random numbers, what
    the network carries from batch to batch, the sums for the next line of the log, and the averaged weights.
    """

    def __init__(self, network: Network, batches: Batches, dev: Batches | None = None) -> None:
        super().__init__()
        self.network = network
        metric = network.metric()
        self.best, self.lower_is_better = metric.best, metric.lower_is_better
        self.batches = batches  # of the training data
        self.dev_mark = None if dev is None else _mark(dev)
        # Whether the dev set is read with a carried state, so that each process reads all of it.
        self.carries_dev = getattr(dev, "carries", False)
        self.settings = network.settings
        self.last = BatchLoss(0.0, 0)
        self.steps = 0  # that the whole training has
        self.sums = [0.0, 0.0]  # loss times count, and count, since the last line of the log
        self.gradient = 0.0  # the largest norm since then
        self.lr = 0.0  # of the last step
        self.average: list[Tensor] | None = None
        self.dev_results: dict[str, float] = {}  # the dev set's results after the last epoch
        self.wishes = (False, False)  # of this process: to save, to stop
        self.agreed = (False, False)  # of any of them, as of the last step
        self._random: Tensor | None = None

    # ---------------------------------------------------------------- steps

    def training_step(self, batch: Any, index: int) -> Tensor:
        self.network.progress = self.global_step / max(1, self.steps)
        batch, counts = batch if distributed.size() > 1 else (batch, True)
        loss = self.network.loss(batch)
        value, whole, mean = float(loss.mean.detach()), float(loss.weight), loss.mean
        if distributed.size() > 1:
            weight = loss.weight if counts else 0
            product, whole, *agreed = distributed.total([value * weight, weight, *map(float, self.wishes)])
            value, mean = product / max(1, whole), distributed.scaled(mean, weight, whole)
            self.agreed = (agreed[0] > 0, agreed[1] > 0)
        if not math.isfinite(value):
            raise Diverged(f"the loss is {value} at step {self.global_step} (epoch {self.current_epoch + 1})")
        self.last = BatchLoss(value, int(whole))
        self.sums[0] += value * whole
        self.sums[1] += whole
        return mean

    @property
    def recent(self) -> float:
        return self.sums[0] / max(1.0, self.sums[1])

    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: Any = None, gradient_clip_algorithm: Any = None
    ) -> None:
        by_norm = self.settings.clip and self.settings.clip_by == "norm"
        norm = clip_norm(self.network.parameters(), self.settings.clip if by_norm else math.inf)
        if not math.isfinite(norm):
            where = f"at step {self.global_step} (epoch {self.current_epoch + 1})"
            raise Diverged(f"the gradient is {norm} {where}")
        self.gradient = max(self.gradient, norm)
        if self.settings.clip and not by_norm:
            torch.nn.utils.clip_grad_value_(self.network.parameters(), self.settings.clip, foreach=True)

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        self.lr = self.trainer.optimizers[0].param_groups[0]["lr"]
        super().optimizer_step(*args, **kwargs)
        if self.settings.average:
            weights = [p.data for p in self.network.parameters()]
            if self.average is None:
                self.average = [w.clone() for w in weights]
            else:  # early on a shorter memory, so that the first, untrained weights are soon forgotten
                decay = min(self.settings.average, (1 + self.global_step) / (10 + self.global_step))
                torch._foreach_lerp_(self.average, weights, 1 - decay)

    def configure_optimizers(self) -> Any:
        optimizer = make_optimizer(self.settings, self.network.parameters())
        self.steps = steps = int(self.trainer.estimated_stepping_batches)
        per_epoch = math.ceil(steps / (self.trainer.max_epochs or 1))
        self.schedule = make_schedule(self.settings, optimizer, steps, per_epoch, self.lower_is_better)
        if self.settings.schedule == "plateau":
            return optimizer  # stepped with the dev metric, below
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": self.schedule, "interval": "step"}}

    # ---------------------------------------------------------------- the dev set

    @contextmanager
    def best_weights(self) -> Iterator[None]:
        """Let the network have the averaged weights, if there are any, until the block ends."""
        if self.average is None:
            yield
            return
        weights = [p.data for p in self.network.parameters()]
        own = [w.clone() for w in weights]
        torch._foreach_copy_(weights, self.average)
        try:
            yield
        finally:
            torch._foreach_copy_(weights, own)

    def on_validation_epoch_start(self) -> None:
        self._carried = self.network.carried  # the dev set has a state of its own
        self._averaged = self.best_weights()
        self._averaged.__enter__()
        self._metric = self.network.metric()

    def validation_step(self, batch: Any, index: int) -> None:
        if self.carries_dev or index % distributed.size() == distributed.rank():
            self._metric.add(batch)

    def on_validation_epoch_end(self) -> None:
        self._averaged.__exit__(None, None, None)
        self.network.carried = self._carried
        metric = self._metric if self.carries_dev else distributed.merge(self._metric, self.network)
        self.dev_results = metric.result()
        if self.settings.schedule == "plateau":
            self.schedule.step(self.dev_results[self.best])  # type: ignore[arg-type]

    # ---------------------------------------------------------------- resuming

    def on_train_epoch_start(self) -> None:
        self.batches.set_epoch(self.current_epoch)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["module"] = {
            "random": torch.get_rng_state(),
            "batches": self.batches.state_dict(),
            "carried": self.network.carried,
            "sums": self.sums,
            "gradient": self.gradient,
            "average": self.average,
            "found": self.dev_results,
            "dev": self.dev_mark,
            "plateau": self.schedule.state_dict() if self.settings.schedule == "plateau" else None,
        }
        if distributed.size() > 1:  # each process has random numbers and carried states of its own
            own = {"random": torch.get_rng_state(), "carried": self.network.carried}
            checkpoint["module"]["processes"] = distributed.gather(own)

    def check_data(self, checkpoint: dict[str, Any]) -> None:
        """Raise if the data is not what it was when the run that the checkpoint is of began."""
        own = checkpoint["module"]
        self._check_file("train", own["batches"].get("data"), self.batches.state_dict().get("data"))
        self._check_file("dev", own.get("dev", self.dev_mark), self.dev_mark)

    def _check_file(self, key: str, then: Any, now: Any) -> None:
        """Raise if the data that the setting `key` names is not what it was when the run began."""
        if then != now:
            file = shown(getattr(self.settings, key, None) or key)
            remedy = f"restore it, or start over with {setting('force', True)}"
            raise RunError(f"{file}: not the data that the run began with; {remedy}")

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        own = checkpoint["module"]
        each = own.get("processes", [own])
        if len(each) != distributed.size():
            before, now = (
                counted(len(each), "process", "processes"),
                counted(distributed.size(), "process", "processes"),
            )
            raise RunError(
                f"the run was trained by {before} and cannot be resumed by {now}; start the same number as before"
            )
        self._random = each[distributed.rank()]["random"]
        self.network.carried = each[distributed.rank()]["carried"]
        self.sums, self.gradient = list(own["sums"]), own["gradient"]
        self.average, self.dev_results = own["average"], own["found"]
        self._place, self._plateau = own["batches"], own["plateau"]

    def on_train_batch_start(self, batch: Any, index: int) -> None:
        if self._random is not None:  # as late as can be, so that nothing in between draws from it
            torch.set_rng_state(self._random)
            self._random = None

    def on_train_start(self) -> None:
        if self._random is None:
            return
        self.batches.load_state_dict(self._place)  # nothing has been read yet
        if self._plateau is not None:
            self.schedule.load_state_dict(self._plateau)


def _mark(batches: Batches) -> str:
    """What tells data apart: a digest of the state of batches of which none has been read."""
    state = json.dumps(batches.state_dict(), sort_keys=True, default=str)
    return hashlib.sha256(state.encode()).hexdigest()
