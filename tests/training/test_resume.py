"""A run that was stopped and taken up again ends like one that never stopped: the same bytes in weights and log."""

import os
import signal
import subprocess
import sys
import time

import pytest
from helpers.tiny import Killed, fit, kill_at, language, outcome

from carousel.errors import RunError
from carousel.tasks.lm.data import LanguageAssets
from carousel.tasks.lm.task import LanguageTask
from carousel.tasks.runs import load_run, settings_of
from carousel.training import Run, trainer
from carousel.training.checkpoints import Checkpoints
from carousel.training.trainer import resumed_settings

# Everything that draws random numbers, carries a state or remembers something.
NOISE = {"dropout": 0.3, "recurrent_dropout": 0.2, "weight_drop": 0.2, "embedding_dropout": 0.1}
STOPS = {
    "before the first batch": ("batch", 0, 0),
    "in the first epoch": ("batch", 0, 3),
    "at an epoch's first batch": ("batch", 1, 0),
    "in the middle of an epoch": ("batch", 1, 2),
    "at an epoch's last batch": ("batch", 1, 5),
    "in the dev set": ("dev", 1, 0),
    "between best weights and checkpoint": ("kept", 0),
    "before an epoch's checkpoint": ("unsaved", 1),
    "after an epoch's checkpoint": ("saved", 1),
    "in the last epoch": ("batch", 2, 4),
    "after the last checkpoint": ("saved", 2),
}
LAYOUTS = {
    "lines": {"layout": "lines"},
    "running": {"layout": "running", "batch_size": 3, "vary_bptt": True},
    "sentences": {"layout": "sentences", "batch_size": 3},
}
VARIANTS = {
    "sgd": {"optimizer": "sgd", "momentum": 0.9, "lr": 0.5},
    "adamw": {"optimizer": "adamw", "weight_decay": 0.1, "beta2": 0.9},
    "rmsprop": {"optimizer": "rmsprop", "momentum": 0.5},
    "adadelta": {"optimizer": "adadelta", "lr": 1.0},
    "linear": {"schedule": "linear", "warmup": 0.2},
    "cosine": {"schedule": "cosine", "warmup": 0.1},
    "step": {"schedule": "step"},
    "plateau": {"schedule": "plateau", "lr": 100.0, "optimizer": "sgd"},
    "average": {"average": 0.9},
    "accumulate": {"accumulate": 3, "batch_size": 3},
    "accumulate, uneven": {"accumulate": 4, "batch_size": 4, "log_steps": 1},
    "zoneout": {"zoneout": 0.2, "dropout": 0.2},
    "variational": {**NOISE, "variational": True, "layers": 2},
    "clip by value": {"clip": 0.01, "clip_by": "value"},
    "gru": {"cell": "gru", "layout": "running", "batch_size": 3},
    "no dev set": {"dev": None},
    "rare log": {"log_steps": 5},
    "patience": {"patience": 1, "lr": 100.0, "optimizer": "sgd", "epochs": 6},
}


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """What settings lead to when nothing happens on the way."""
    known = {}

    def of(**given):
        key = repr(sorted(given.items()))
        if key not in known:
            folder = tmp_path_factory.mktemp("whole")
            known[key] = outcome(fit(language(folder, **given), folder / "run"))
        return known[key]

    return of


def killed(settings, out, stop, **options):
    """Train until `stop`; whether it was reached."""
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, *stop)
        try:
            fit(settings, out, **options)
        except Killed:
            return True
    return False


CASES = [(stop, layout) for stop in STOPS for layout in ("lines", "running")]
CASES += [(stop, "sentences") for stop in ("in the middle of an epoch", "in the dev set", "in the last epoch")]


@pytest.mark.parametrize("stop, layout", CASES)
def test_stopped_anywhere(tmp_path, uninterrupted, stop, layout):
    given = {**NOISE, **LAYOUTS[layout], "average": 0.9, "schedule": "cosine"}
    settings = language(tmp_path, **given, checkpoint_minutes=0)
    assert killed(settings, tmp_path / "run", STOPS[stop])
    run = fit(settings, tmp_path / "run", resume=True)
    assert outcome(run) == uninterrupted(**given)


CASES = [(variant, 0) for variant in VARIANTS]  # a checkpoint at every step
CASES += [(variant, 60) for variant in ("sgd", "plateau", "average", "accumulate", "rare log", "patience")]


@pytest.mark.parametrize("variant, minutes", CASES)
def test_stopped_again_and_again(tmp_path, uninterrupted, variant, minutes):
    given = VARIANTS[variant]
    settings = language(tmp_path, **given, checkpoint_minutes=minutes)
    reached = [
        killed(settings, tmp_path / "run", stop, resume=k > 0)
        for k, stop in enumerate([("batch", 0, 2), ("batch", 1, 1), ("saved", 1), ("batch", 2, 3)])
    ]
    assert any(reached)
    run = fit(settings, tmp_path / "run", resume=True)
    assert outcome(run) == uninterrupted(**given)


def test_the_plateau_variant_has_a_plateau(uninterrupted):
    """Otherwise what is remembered of it would not be tested; so for patience."""
    lines = [line.split(",") for line in uninterrupted(**VARIANTS["plateau"])[1].splitlines()[1:]]
    assert len({line[2] for line in lines if line[2]}) > 1
    lines = uninterrupted(**VARIANTS["patience"])[1].splitlines()
    assert int(lines[-1].split(",")[1]) < 6


def test_the_seed_and_every_kind_of_noise_matter(uninterrupted):
    """Identical bytes are no accident of a network that learns nothing."""
    outcomes = [uninterrupted(), uninterrupted(seed=1), *(uninterrupted(**{k: v}) for k, v in NOISE.items())]
    assert len({weights for weights, _ in outcomes}) == len(outcomes)


def test_the_same_settings_give_the_same_run(tmp_path, uninterrupted):
    run = fit(language(tmp_path), tmp_path / "run")
    assert outcome(run) == uninterrupted()


def test_a_damaged_checkpoint_is_passed_over(tmp_path, uninterrupted, capsys):
    settings = language(tmp_path, checkpoint_minutes=0, **NOISE)
    killed(settings, tmp_path / "run", ("batch", 1, 3))
    newest = Checkpoints(tmp_path / "run" / "checkpoints").paths()[-1]
    newest.write_bytes(newest.read_bytes()[:-5])
    run = trainer.train(LanguageTask, settings, tmp_path / "run", resume=True, report=False)
    said = capsys.readouterr().err
    assert f"{newest}: damaged or cut short" in said
    assert "resuming from step 8\n" in said
    assert outcome(run) == uninterrupted(**NOISE)


def test_all_checkpoints_damaged_means_from_the_beginning(tmp_path, uninterrupted, capsys):
    settings = language(tmp_path, checkpoint_minutes=0, **NOISE)
    killed(settings, tmp_path / "run", ("batch", 1, 3))
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        path.write_bytes(b"")
    run = trainer.train(LanguageTask, settings, tmp_path / "run", resume=True, report=False)
    said = capsys.readouterr().err
    assert "going back to the beginning" in said
    assert outcome(run) == uninterrupted(**NOISE)


def test_what_a_killed_process_left_half_written_is_cleared_away(tmp_path, uninterrupted):
    settings = language(tmp_path, checkpoint_minutes=0)
    killed(settings, tmp_path / "run", ("batch", 1, 3))
    for folder in (tmp_path / "run", tmp_path / "run" / "checkpoints"):
        (folder / ".model.safetensors.1.part").write_bytes(b"half")
    run = fit(settings, tmp_path / "run", resume=True)
    assert outcome(run) == uninterrupted()
    assert not list((tmp_path / "run").rglob("*.part"))


@pytest.mark.parametrize("moment", ["save", "begin"])
def test_stopped_before_training_began(tmp_path, uninterrupted, moment):
    """After the settings were written, but before the vocabulary was, or before the log was."""
    from carousel.training.csv_logger import CSVLogger

    settings = language(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LanguageAssets if moment == "save" else CSVLogger, moment, _die)
        with pytest.raises(Killed):
            fit(settings, tmp_path / "run")
    run = fit(settings, tmp_path / "run", resume=True)
    assert outcome(run) == uninterrupted()
    load_run(run.folder)


def _die(*_):
    raise Killed


# ---------------------------------------------------------------- settings of a run that goes on


def test_a_finished_run_gains_epochs(tmp_path, uninterrupted):
    run = fit(language(tmp_path), tmp_path / "run")
    longer = resumed_settings(run, LanguageTask, {"epochs": 5})
    run = fit(longer, tmp_path / "run", resume=True)
    assert outcome(run) == uninterrupted(epochs=5)
    assert run.result["epochs"] == 5
    assert settings_of(run)[1].epochs == 5  # config.yaml gives the run that is there


def test_fewer_epochs_than_were_trained_are_refused(tmp_path):
    """An interrupted run keeps its settings, and can be resumed with enough epochs."""
    killed(language(tmp_path), tmp_path / "run", ("batch", 2, 1))
    run = Run(tmp_path / "run")
    with pytest.raises(RunError, match="epochs: the run is in epoch 2 already; give 2 or more, got 1"):
        fit(resumed_settings(run, LanguageTask, {"epochs": 1}), run.folder, resume=True)
    assert settings_of(run)[1].epochs == language(tmp_path).epochs


def test_a_run_that_gained_epochs_and_was_killed_goes_on_to_them(tmp_path, uninterrupted):
    run = fit(language(tmp_path), tmp_path / "run")
    killed(resumed_settings(run, LanguageTask, {"epochs": 5}), run.folder, ("batch", 3, 3), resume=True)
    run = fit(resumed_settings(run, LanguageTask, {}), run.folder, resume=True)
    assert outcome(run) == uninterrupted(epochs=5)


@pytest.mark.parametrize("name, value", [("hidden", 7), ("lr", 0.5), ("seed", 3), ("layout", "running"), ("dev", None)])
def test_other_settings_are_refused_by_name(tmp_path, name, value):
    settings = language(tmp_path)
    killed(settings, tmp_path / "run", ("batch", 1, 0))
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    said = "null" if value is None else value
    with pytest.raises(RunError, match=rf"config.yaml: {name} is .* there, {said} now"):
        resumed_settings(Run(tmp_path / "run"), LanguageTask, {name: value})
    assert before == {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}


def test_the_same_settings_again_are_no_change(tmp_path):
    settings = language(tmp_path)
    killed(settings, tmp_path / "run", ("batch", 1, 0))
    again = {"hidden": 6, "train": str(settings.train), "lr": "2e-2", "patience": 4}
    assert resumed_settings(Run(tmp_path / "run"), LanguageTask, again).patience == 4


def test_other_data_is_refused(tmp_path):
    settings = language(tmp_path, checkpoint_minutes=0)
    killed(settings, tmp_path / "run", ("batch", 1, 2))
    kept = (tmp_path / "run" / "tokenizer.json").read_bytes()
    text = settings.train.read_text("utf-8")
    settings.train.write_text(text.replace("a", "q"), "utf-8")
    with pytest.raises(RunError, match=r"train\.txt: not the data that the run began with; restore it, or"):
        fit(settings, tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "tokenizer.json").read_bytes() == kept
    settings.train.write_text(text, "utf-8")
    fit(settings, tmp_path / "run", resume=True)


def test_another_dev_set_is_refused(tmp_path, capsys):
    settings = language(tmp_path, checkpoint_minutes=0)
    whole = outcome(fit(settings, tmp_path / "whole"))
    killed(settings, tmp_path / "run", ("batch", 1, 2))
    text = settings.dev.read_text("utf-8")
    settings.dev.write_text(text.replace("a", "b"), "utf-8")
    with pytest.raises(RunError, match=r"dev\.txt: not the data that the run began with; restore it"):
        fit(settings, tmp_path / "run", resume=True, quiet=False)
    assert "parameters" not in capsys.readouterr().err  # nothing before the error as if it went on
    settings.dev.write_text(text, "utf-8")
    assert outcome(fit(settings, tmp_path / "run", resume=True)) == whole


def test_the_vocabulary_is_not_learned_again(tmp_path, monkeypatch):
    settings = language(tmp_path, checkpoint_minutes=0)
    whole = outcome(fit(settings, tmp_path / "whole"))
    killed(settings, tmp_path / "run", ("batch", 1, 2))

    def learn(*args, **options):
        raise AssertionError("a vocabulary is learned")

    monkeypatch.setattr("carousel.data.Vocabulary.train", learn)
    assert outcome(fit(settings, tmp_path / "run", resume=True)) == whole


# ---------------------------------------------------------------- real processes


def start(*args):
    """The command, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "carousel.cli.main", *map(str, args)], stderr=subprocess.PIPE, text=True
    )


def wait_for(condition, process, seconds=120):
    """Until the run is where we want it; it must still be under way then."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.slow
def test_ctrl_c_then_kill_9(tmp_path):
    """Stopped politely, then not: each time it goes on, and ends like a run in one piece."""
    given = {"epochs": 40, "log_steps": 1, "checkpoint_minutes": 0, "dropout": 0.2}
    settings = language(tmp_path, **given)
    config = tmp_path / "settings.yaml"
    config.write_text(settings.to_yaml(), "utf-8")
    run = Run(tmp_path / "run")

    process = start("train", "lm", "--config", config, "--out", run.folder)
    wait_for(lambda: run.metrics.exists() and run.metrics.stat().st_size > 500, process)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 130
    command = f"carousel train lm --out {run.folder} --resume"
    assert said.splitlines()[-1].endswith(f"which is kept; resume with: {command}")
    assert f"stopped at step {Checkpoints(run.checkpoints).load_checkpoint(run_newest(run))['global_step']}" in said

    size = run.metrics.stat().st_size
    process = start(*command.split()[1:])
    wait_for(lambda: run.metrics.stat().st_size > size + 500, process)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(120) == -signal.SIGKILL
    process.stderr.close()
    assert run.result is None

    fit(settings, run.folder, resume=True)
    assert outcome(run) == outcome(fit(settings, tmp_path / "whole"))


def run_newest(run):
    return Checkpoints(run.checkpoints).latest()
