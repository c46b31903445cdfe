"""Runs that take a moment: a tiny corpus, tiny networks, and a way to stop them at any place."""

import random

from carousel.tasks.lm.settings import LanguageSettings
from carousel.tasks.lm.task import LanguageTask
from carousel.training import trainer
from carousel.training.checkpoint_callback import CheckpointCallback
from carousel.training.module import Module


def write_corpus(path, lines=22, seed=0, letters="abcdefg "):
    """Lines of 2 to 9 characters."""
    draw = random.Random(seed)
    text = ["x" + "".join(draw.choice(letters) for _ in range(draw.randint(1, 8))) for _ in range(lines)]
    path.write_text("\n".join(text) + "\n", "utf-8")
    return path


PLAIN = {"optimizer": "adam", "weight_decay": 0.0, "schedule": "constant", "warmup": 0.0}  # steps that are all alike


def language(folder, **given):
    """Settings of a small language model on a corpus in `folder`."""
    train, dev = folder / "train.txt", folder / "dev.txt"
    if not train.exists():
        write_corpus(train)
        write_corpus(dev, lines=8, seed=1)
    small = {"hidden": 6, "embedding": 5, "batch_size": 4, "bptt": 7, "epochs": 3, "threads": 1, "log_steps": 2}
    known = {
        "train": train,
        "dev": dev,
        "cache": folder / "cache",
        "lr": 0.02,
        "dev_split": "none",
        "dropout": 0.2,
        **PLAIN,
        **small,
    }
    return LanguageSettings.read({**known, **given})


def new_model(settings, task=LanguageTask):
    """A model that has not been trained, and its data."""
    assets, data = task.prepare(settings)
    return task.make_model(task.make_network(settings, assets), assets), data


def fit(settings, out, task=LanguageTask, **options):
    """Train quietly; the run directory."""
    return trainer.train(task, settings, out, **{"quiet": True, "report": False, **options})


def outcome(run):
    """What must be the same however often a run was interrupted."""
    return run.weights.read_bytes(), run.metrics.read_text("utf-8")


class Killed(BaseException):
    """The process is no more."""


def kill_at(monkeypatch, place, epoch, index=0):
    """Let the process end in epoch `epoch` (from 0): before batch `index` of training ("batch") or of the dev set
    ("dev"), after the epoch's weights ("kept") or its checkpoint ("saved"), or before the latter ("unsaved")."""

    def guard(owner, name, when, after=False):
        real = getattr(owner, name)

        def replacement(self, *args):
            if after:
                real(self, *args)
            if when(self, *args):
                raise Killed
            return None if after else real(self, *args)

        monkeypatch.setattr(owner, name, replacement)

    def in_batch(module, batch, number):
        return (module.current_epoch, number) == (epoch, index)

    def at_end(keeper, trainer, module):
        return trainer.is_last_batch and trainer.current_epoch == epoch

    match place:
        case "batch":
            guard(Module, "training_step", in_batch)
        case "dev":
            guard(Module, "validation_step", in_batch)
        case "kept":
            guard(
                CheckpointCallback, "_keep_weights", lambda _, module, info: module.current_epoch == epoch, after=True
            )
        case "unsaved":
            guard(CheckpointCallback, "_save", at_end)
        case "saved":
            guard(CheckpointCallback, "_save", at_end, after=True)
        case _:
            raise ValueError(place)
