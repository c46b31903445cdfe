"""Runs that end before their time: a loss that is no number, and signals."""

import os
import signal

import pytest
import torch
from helpers.stub import StubSettings, register
from helpers.tiny import fit, language, outcome

from carousel.training.checkpoint_callback import Interrupted
from carousel.training.checkpoints import Checkpoints, step_of
from carousel.training.module import Diverged, Module


def diverging(value, at, where):
    """A task whose loss, gradient or weight becomes `value` in batch `at`."""

    def loss(self, batch):
        from carousel.training import Loss

        self.count = getattr(self, "count", 0) + 1
        mean = (self.weight - batch).square().sum() / 2
        if self.count == at and where == "loss":
            mean = mean * value
        if self.count == at and where == "gradient":
            mean.register_hook(lambda gradient: gradient * value)
        return Loss(mean, 1)

    return loss


def settings(**given):
    return StubSettings.read({"optimizer": "sgd", "lr": 0.1, "threads": 1, "log_steps": 1, "epochs": 3, **given})


@pytest.mark.parametrize("where", ["loss", "gradient"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")], ids=str)
def test_no_longer_a_number(tmp_path, monkeypatch, value, where):
    """The fifth batch: one epoch is kept, and the line says so, and what to try."""
    task = register(monkeypatch, loss=diverging(value, 5, where), metrics=(1.0, 2.0, 3.0))
    with pytest.raises(Diverged) as caught:
        fit(settings(), tmp_path / "run", task)
    said = str(caught.value)
    assert said.startswith(f"the {where} is ")
    folder = tmp_path / "run" / "checkpoints"
    end = f"at step 4 (epoch 2); the checkpoint of step 3 is kept in {folder}; "
    assert said.endswith(end + "try a lower lr (it is 0.1) or a smaller clip (it is 5)")
    kept = Checkpoints(folder)
    assert [step_of(path) for path in kept.paths()] == [3]
    assert torch.isfinite(kept.load_checkpoint(kept.latest(pytest.fail))["state_dict"]["network.weight"]).all()
    assert (tmp_path / "run" / "model.safetensors").exists()
    assert not (tmp_path / "run" / "result.json").exists()


def test_nothing_kept_yet_and_no_clipping(tmp_path, monkeypatch):
    task = register(monkeypatch, loss=diverging(float("nan"), 2, "loss"))
    with pytest.raises(Diverged, match=r"step 1 .*; nothing was kept yet; try a lower lr .* or clipping \(clip=5\)$"):
        fit(settings(clip=0), tmp_path / "run", task)


def test_a_tight_clip_is_not_the_thing_to_try(tmp_path, monkeypatch):
    task = register(monkeypatch, loss=diverging(float("nan"), 2, "loss"))
    with pytest.raises(Diverged, match=r"try a lower lr \(it is 0.1\)$"):
        fit(settings(clip=0.5), tmp_path / "run", task)


def test_weights_that_are_no_numbers_are_never_kept(tmp_path, monkeypatch):
    """A step from a finite gradient to infinity: noticed before a checkpoint is made of it."""
    task = register(monkeypatch, targets=(1e30,))
    with pytest.raises(Diverged):
        fit(settings(lr=1e30, clip=0), tmp_path / "run", task)
    assert Checkpoints(tmp_path / "run" / "checkpoints").paths() == []
    assert not (tmp_path / "run" / "model.safetensors").exists()


def send_at(monkeypatch, number, place, epoch, index=0):
    """Let a signal arrive in training batch `index`, or in the dev set."""
    name = {"batch": "training_step", "dev": "validation_step"}[place]
    real = getattr(Module, name)

    def replacement(self, batch, at):
        if (self.current_epoch, at) == (epoch, index):
            os.kill(os.getpid(), number)
        return real(self, batch, at)

    monkeypatch.setattr(Module, name, replacement)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What comes of a run that nobody asks to stop."""
    folder = tmp_path_factory.mktemp("whole")
    return outcome(fit(language(folder, dropout=0.3), folder / "run"))


@pytest.mark.parametrize(
    "place, step, number",
    [
        (("batch", 0, 0), 1, signal.SIGINT),
        (("batch", 1, 2), 9, signal.SIGINT),
        (("batch", 1, 2), 9, signal.SIGTERM),
        (("batch", 1, 5), 12, signal.SIGINT),
        (("dev", 1), 12, signal.SIGTERM),
        (("dev", 1), 12, signal.SIGINT),
        (("batch", 2, 5), 18, signal.SIGINT),
    ],
)
def test_asked_to_stop(tmp_path, whole, place, step, number):
    """The step under way is finished and kept, and the run can go on from there."""
    before = signal.getsignal(number)
    given = language(tmp_path, dropout=0.3)
    with pytest.MonkeyPatch.context() as patch:
        send_at(patch, number, *place)
        with pytest.raises(Interrupted) as caught:
            fit(given, tmp_path / "run")
    assert (caught.value.step, caught.value.code) == (step, 128 + number)
    assert signal.getsignal(number) == before
    kept = Checkpoints(tmp_path / "run" / "checkpoints")
    assert step_of(kept.latest()) == step
    assert outcome(fit(given, tmp_path / "run", resume=True)) == whole


def test_asked_to_stop_with_a_step_of_several_batches_under_way(tmp_path):
    given = language(tmp_path, accumulate=3)
    with pytest.MonkeyPatch.context() as patch:
        send_at(patch, signal.SIGINT, "batch", 0, 1)
        with pytest.raises(Interrupted, match="stopped at step 1"):
            fit(given, tmp_path / "run")
    assert outcome(fit(given, tmp_path / "run", resume=True)) == outcome(fit(given, tmp_path / "whole"))


def test_asked_twice(tmp_path, monkeypatch):
    """At once, without saving; what was kept before stays, and the handlers are as they were."""
    before = signal.getsignal(signal.SIGINT)
    real = Module.training_step

    def twice(self, batch, index):
        if self.current_epoch == 1:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return real(self, batch, index)

    monkeypatch.setattr(Module, "training_step", twice)
    with pytest.raises(Interrupted) as caught:
        fit(language(tmp_path), tmp_path / "run")
    assert caught.value.step == 6
    kept = Checkpoints(tmp_path / "run" / "checkpoints")
    assert [step_of(path) for path in kept.paths()] == [6]
    assert signal.getsignal(signal.SIGINT) == before


def test_a_run_outside_the_main_thread(tmp_path):
    """Where no signal can be handled, training works all the same."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(fit, language(tmp_path), tmp_path / "run").result()
    assert outcome(run) == outcome(fit(language(tmp_path), tmp_path / "again"))


def test_the_interrupt_is_said(tmp_path, capsys):
    from carousel.tasks.lm.task import LanguageTask
    from carousel.training import trainer

    with pytest.MonkeyPatch.context() as patch:
        send_at(patch, signal.SIGINT, "batch", 0, 1)
        with pytest.raises(Interrupted):
            trainer.train(LanguageTask, language(tmp_path), tmp_path / "run")
    assert "stopping after this step; press Ctrl-C again to stop without saving\n" in capsys.readouterr().err
