"""Checkpoints appear whole or not at all, and damage is noticed."""

import errno
import os
import re

import lightning.pytorch as lightning
import pytest
import torch
from helpers.tiny import fit, language, outcome

from carousel.errors import RunError
from carousel.training.checkpoints import KEEP, Checkpoints, step_of


@pytest.fixture
def kept(tmp_path):
    """Three checkpoints, of which the newest KEEP are left."""
    checkpoints = Checkpoints(tmp_path)
    for step in (90, 100, 1000):
        checkpoints.save_checkpoint({"global_step": step, "w": torch.full((20,), float(step))}, "")
    return checkpoints


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_are_kept(kept):
    assert KEEP == 2
    assert [step_of(path) for path in kept.paths()] == [100, 1000]
    assert names(kept.folder) == [path.name for path in kept.paths()]
    found = kept.load_checkpoint(kept.latest(pytest.fail))
    assert (found["global_step"], found["w"].unique().tolist()) == (1000, [1000.0])


@pytest.mark.parametrize("length", [0, 7, 100, -1])
def test_cut_short(kept, length):
    older, newest = kept.paths()
    newest.write_bytes(newest.read_bytes()[:length])
    said = []
    assert kept.latest(said.append) == older
    assert said == [f"{newest}: damaged or cut short; going back to the checkpoint before it"]


@pytest.mark.parametrize("place", [0, 8, 60, -1, -40])
def test_one_bit_wrong(kept, place):
    older, newest = kept.paths()
    data = bytearray(newest.read_bytes())
    data[place] ^= 4
    newest.write_bytes(data)
    said = []
    assert kept.latest(said.append) == older
    assert len(said) == 1
    assert kept.load_checkpoint(older)["global_step"] == 100


def test_a_damaged_one_does_not_count_among_those_kept(kept):
    kept.paths()[-1].write_bytes(b"")
    kept.latest()
    kept.save_checkpoint({"global_step": 110}, "")
    assert [step_of(path) for path in kept.paths()] == [100, 110]


def test_all_damaged(kept):
    for path in kept.paths():
        path.write_bytes(b"x")
    said = []
    assert kept.latest(said.append) is None
    assert [line.split("; ")[1] for line in said] == [
        "going back to the checkpoint before it",
        "going back to the beginning",
    ]


def test_a_name_that_claims_nothing_is_not_believed(kept):
    kept.paths()[-1].rename(kept.folder / "step-00001000.safetensors")
    assert step_of(kept.latest()) == 100


def test_none_yet(tmp_path):
    assert Checkpoints(tmp_path / "nowhere").latest(pytest.fail) is None


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("call", ["fsync", "replace", "write"])
def test_no_room(kept, monkeypatch, call):
    """Whichever call fails, what was there is untouched and nothing is left beside it."""
    before = {path.name: path.read_bytes() for path in kept.folder.iterdir()}
    if call == "write":
        monkeypatch.setattr("builtins.open", _full_file)
    else:
        monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError) as caught:
        kept.save_checkpoint({"global_step": 2000}, "")
    assert caught.value.errno == errno.ENOSPC
    assert re.search(r"step-00002000-\w+.safetensors$", caught.value.filename)
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in kept.folder.iterdir()} == before


def _full_file(path, mode):
    file = os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY), mode)

    class Full:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            file.close()

        def write(self, data):
            file.write(data[:10])
            full()

    return Full()


@pytest.mark.parametrize("first", ["checkpoint", "weights", "log"])
def test_the_disk_is_full_during_a_run(tmp_path, monkeypatch, first):
    """One line that says what is kept and how to go on; going on when there is room ends as if nothing had been."""
    from carousel.training.checkpoint_callback import CheckpointCallback
    from carousel.training.csv_logger import CSVLogger

    settings = language(tmp_path, checkpoint_minutes=0)
    whole = outcome(fit(settings, tmp_path / "whole"))
    owner, name = {
        "checkpoint": (Checkpoints, "save_checkpoint"),
        "weights": (CheckpointCallback, "_keep_weights"),
        "log": (CSVLogger, "log_metrics"),
    }[first]
    real, calls = getattr(owner, name), []

    def fill(self, *args, **kwargs):
        calls.append(1)
        if len(calls) > 2:
            for call in ("fsync", "write"):
                monkeypatch.setattr(os, call, full)
            if owner is CSVLogger:
                full()
        return real(self, *args, **kwargs)

    monkeypatch.setattr(owner, name, fill)
    with pytest.raises(RunError) as caught:
        fit(settings, tmp_path / "run")
    monkeypatch.undo()
    said = str(caught.value)
    newest = Checkpoints(tmp_path / "run" / "checkpoints").latest(pytest.fail)
    end = f"resume with: carousel train lm --out {tmp_path / 'run'} --resume"
    assert re.fullmatch(
        rf".*: No space left on device; step {step_of(newest)} is kept; free some space, then {end}", said
    )
    assert not list((tmp_path / "run").rglob("*.part"))
    assert outcome(fit(settings, tmp_path / "run", resume=True)) == whole


def test_a_full_disk_before_the_first_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoints, "save_checkpoint", full)
    with pytest.raises(RunError, match="No space left on device; free some space, then resume with"):
        fit(language(tmp_path), tmp_path / "run")


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EACCES, "Permission denied; step [0-9]+ is kept; make it writable, then resume with"),
        (errno.EIO, "Input/output error; step [0-9]+ is kept; fix that, then resume with"),
    ],
)
def test_only_a_full_disk_needs_space(tmp_path, monkeypatch, number, said):
    from carousel.training.checkpoint_callback import CheckpointCallback

    def fail(*args):
        raise OSError(number, os.strerror(number), "model.safetensors")

    real, calls = CheckpointCallback._keep_weights, []

    def keep(self, *args):
        calls.append(1)
        (fail if len(calls) > 1 else real)(self, *args)

    monkeypatch.setattr(CheckpointCallback, "_keep_weights", keep)
    with pytest.raises(RunError, match=f"model.safetensors: {said}"):
        fit(language(tmp_path), tmp_path / "run")


def test_an_error_that_is_not_the_systems_is_left_as_it_is(tmp_path):
    class Unreachable(lightning.Callback):
        def on_train_start(self, trainer, module):
            raise OSError("the tracking server does not answer")

    with pytest.raises(OSError, match=r"^the tracking server does not answer$"):
        fit(language(tmp_path), tmp_path / "run", callbacks=[Unreachable()])


def test_the_disk_is_full_when_the_report_is_written(tmp_path, monkeypatch):
    """The model is there; --resume writes the report alone."""
    from carousel.report import Page

    settings = language(tmp_path, epochs=1)

    def fail(self, path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Page, "write", fail)
    with pytest.raises(RunError, match=r"report\.html: No space left on device; step .* free some space, then resume"):
        fit(settings, tmp_path / "run", report=True)
    monkeypatch.undo()
    run = fit(settings, tmp_path / "run", report=True, resume=True)
    assert run.report.exists() and run.result["epochs"] == 1
