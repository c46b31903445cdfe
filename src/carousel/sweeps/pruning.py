"""Which trials of a sweep end early, and the callback that ends them."""

from __future__ import annotations

from typing import Any

import optuna
from lightning.pytorch import Callback, Trainer

STARTUP = 5  # trials that are never pruned: the median of fewer says little


def median_pruner() -> optuna.pruners.MedianPruner:
    """Prunes a trial that is worse than the median of the others after the same number of epochs."""
    return optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=2)  # not after the first epoch


class Pruning(Callback):
    """Reports the dev metric after each epoch, and ends the run early if the pruner says so.

    The decision is written to the journal before the run ends, so that it holds for a process that takes the trial up
    after this one was killed.
    """

    def __init__(self, trial: optuna.Trial) -> None:
        self.trial = trial

    def on_train_start(self, trainer: Trainer, module: Any) -> None:
        pruned = self.trial.user_attrs.get("pruned")
        if pruned is not None and trainer.current_epoch >= pruned:
            trainer.should_stop = True

    def on_train_epoch_end(self, trainer: Trainer, module: Any) -> None:
        epoch = trainer.current_epoch + 1
        reported = self.trial.study.get_trials(deepcopy=False)[self.trial.number].intermediate_values
        if epoch not in reported:  # else before the process was killed
            self.trial.report(module.dev_results[module.best], epoch)
        if self.trial.should_prune() and epoch < (trainer.max_epochs or 0):
            self.trial.set_user_attr("pruned", epoch)
            trainer.should_stop = True
