"""The run directory: what is in it, that loading runs no code, and whose directory may be replaced."""

import io
import json
import math
import os
import pickle
import pickletools
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
import torch
from helpers.tiny import Killed, fit, kill_at, language, outcome
from safetensors.torch import load_file, save_file

import carousel
from carousel.cells import Cell, registry
from carousel.errors import CarouselError, RunError, SettingsError
from carousel.tasks.lm.data import LanguageAssets
from carousel.tasks.lm.network import LanguageNetwork
from carousel.tasks.lm.task import LanguageTask
from carousel.tasks.runs import load_run
from carousel.training import Run, trainer
from carousel.training.checkpoint_callback import CheckpointCallback
from carousel.training.checkpoints import Checkpoints
from carousel.training.csv_logger import CSVLogger
from carousel.training.manifest import weights_digest


def test_what_is_in_it(finished):
    names = {path.name for path in finished.folder.iterdir()}
    assert names == {
        "config.yaml", "model.safetensors", "tokenizer.json", "metrics.csv", "tensorboard", "checkpoints",
        "result.json", "report.html", "manifest.json", "usual.json",
    }  # fmt: skip
    assert finished.result["command"] == "carousel train lm 'a b'"
    json.loads((finished.folder / "tokenizer.json").read_text("utf-8"))
    assert load_file(finished.weights).keys() == load_run(finished.folder).network.state_dict().keys()


def test_tensorboard_has_what_the_log_has(finished):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(finished.folder / "tensorboard"))
    events.Reload()
    assert {"loss", "lr", "gradient", "dev_perplexity"} <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("dev_perplexity")] == [6, 12]


def test_there_is_no_pickle_in_it(finished):
    for path in finished.folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert not zipfile.is_zipfile(path), path
            if path.suffix != ".safetensors":  # which begins with a number, and that may be any
                assert not data.startswith(b"\x80"), path
            with pytest.raises((ValueError, KeyError, pickle.UnpicklingError)):
                for _ in pickletools.genops(io.BytesIO(data)):
                    pass


def test_nothing_is_unpickled(finished, tmp_path, monkeypatch):
    """Neither to use a run, nor to go on with it."""

    def never(*_, **__):
        raise AssertionError("unpickled")

    settings = language(tmp_path, checkpoint_minutes=0)
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, "batch", 1, 2)
        with pytest.raises(Killed):
            fit(settings, tmp_path / "run")
    for owner, names in ((pickle, ("load", "loads", "Unpickler")), (torch, ("load",))):
        for name in names:
            monkeypatch.setattr(owner, name, never)
    model = carousel.load(finished.folder)
    model.generate()
    model.evaluate(model.settings.dev)
    fit(settings, tmp_path / "run", resume=True)


def test_a_loaded_model_is_the_one_that_was_kept(finished):
    model = carousel.load(str(finished.folder))
    assert not model.network.training
    torch.testing.assert_close(dict(model.network.state_dict()), load_file(finished.weights), rtol=0, atol=0)
    found = model.evaluate(model.settings.dev)["perplexity"]
    assert found == pytest.approx(finished.result["dev_perplexity"], rel=1e-9)
    assert finished.weights_info()["dev_perplexity"] == finished.result["dev_perplexity"]


def test_it_can_be_moved(finished, tmp_path):
    shutil.copytree(finished.folder, tmp_path / "else where")
    assert carousel.load(tmp_path / "else where").generate(seed=3) == carousel.load(finished.folder).generate(seed=3)


# ---------------------------------------------------------------- runs that cannot be used


def broken(finished, tmp_path, name, data):
    run = Run(shutil.copytree(finished.folder, tmp_path / "run"))
    if data is None:
        (run.folder / name).unlink()
    else:
        (run.folder / name).write_bytes(data)
    return run


def test_there_is_none(tmp_path):
    with pytest.raises(RunError, match=r"nowhere: no such run; give a directory that carousel train made"):
        carousel.load(tmp_path / "nowhere")
    with pytest.raises(RunError, match=r"not a run, it has no config.yaml; give a directory that carousel train made"):
        carousel.load(tmp_path)


@pytest.mark.parametrize(
    "name, data, kind, said",
    [
        (
            "model.safetensors",
            None,
            RunError,
            "model.safetensors: missing; copy it from an intact copy of the run, or train",
        ),
        ("model.safetensors", b"", RunError, "model.safetensors: damaged"),
        ("model.safetensors", b"x" * 99, RunError, "model.safetensors: damaged"),
        (
            "config.yaml",
            b"",
            RunError,
            "config.yaml: empty; copy it again from an intact copy of the run, or train again",
        ),
        (
            "config.yaml",
            b"task: lm\nepochs: 2\n",
            RunError,
            "config.yaml: cut short, its last line is not ...; copy it",
        ),
        ("config.yaml", b"task: lmm\n...\n", SettingsError, "task: there is no 'lmm'; did you mean lm?"),
        ("config.yaml", b"task: lm\n...\n", SettingsError, "train: missing; give training text"),
        ("config.yaml", b"task: [lm]\n...\n", SettingsError, "task: there is no"),
        ("tokenizer.json", None, RunError, "tokenizer.json: missing; copy the whole run directory"),
        ("tokenizer.json", b"{}", RunError, "tokenizer.json: damaged or changed"),
        ("manifest.json", None, RunError, "manifest.json: missing"),
        ("manifest.json", b"[]", RunError, "manifest.json: damaged"),
        ("manifest.json", b"", RunError, "manifest.json: damaged"),
    ],
)
def test_something_is_missing_or_damaged(finished, tmp_path, name, data, kind, said):
    with pytest.raises(kind, match=said.replace("[", r"\[")) as caught:
        broken(finished, tmp_path, name, data)
        load_run(tmp_path / "run")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("share", [0.01, 0.02, 0.1, 0.3, 0.6, 0.95])
def test_a_config_that_was_cut_short_is_not_filled_up_with_defaults(finished, tmp_path, share):
    text = finished.config.read_text()
    broken(finished, tmp_path, "config.yaml", text[: int(share * len(text))].encode())
    with pytest.raises(RunError, match=r"config\.yaml: cut short, its last line is not \.\.\.; copy it again"):
        load_run(tmp_path / "run")


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{}", b"null", b'{"epochs": "3"}', b"[" * 99999])
def test_the_result_is_damaged(finished, tmp_path, data):
    with pytest.raises(RunError, match=r"result\.json: damaged \(.{5,200}\); delete it and resume"):
        _ = broken(finished, tmp_path, "result.json", data).result


def test_a_finished_run_is_not_finished_without_its_weights(finished, tmp_path):
    run = broken(finished, tmp_path, "model.safetensors", None)
    with pytest.raises(RunError, match=r"model\.safetensors: missing; copy it"):
        fit(run.read_settings(LanguageTask.Settings), run.folder, resume=True)
    run.result_file.unlink()
    with pytest.raises(RunError, match=r"model\.safetensors: missing; copy it"):
        fit(run.read_settings(LanguageTask.Settings), run.folder, resume=True)


def test_a_result_that_was_deleted_is_written_again(finished, tmp_path):
    run = broken(finished, tmp_path, "result.json", None)
    fit(run.read_settings(LanguageTask.Settings), run.folder, resume=True)
    before, after = finished.result, run.result
    assert {**after, "minutes": 0, "command": ""} == {**before, "minutes": 0, "command": ""}


def test_weights_of_another_network(finished, tmp_path):
    run = broken(finished, tmp_path, "report.html", b"")
    weights = {"w": torch.ones(2)}
    save_file(weights, run.weights, {"carousel": json.dumps({"digest": weights_digest(weights)})})
    with pytest.raises(RunError, match=r"damaged, or not of this config\.yaml") as caught:
        load_run(run.folder)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- whose directory


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_is_replaced_only_if_asked(tmp_path):
    first = fit(language(tmp_path), tmp_path / "run")
    (first.folder / "notes.txt").write_text("from the first run")
    before = contents(first.folder)
    said = "a run is here already; continue it with resume=True or overwrite it with force=True"
    with pytest.raises(RunError, match=said):
        fit(language(tmp_path, seed=1), first.folder)
    assert contents(first.folder) == before
    second = fit(language(tmp_path, seed=1), first.folder, force=True)
    assert outcome(second) == outcome(fit(language(tmp_path, seed=1), tmp_path / "fresh"))
    assert not (first.folder / "notes.txt").exists()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a directory in which none can be made")
def test_where_no_directory_can_be_made(tmp_path):
    with pytest.raises(RunError, match=r"^/proc/run: no directory can be made here; choose another out$"):
        fit(language(tmp_path), Path("/proc/run"))


def test_data_that_cannot_be_used_replaces_nothing(tmp_path):
    first = fit(language(tmp_path), tmp_path / "run")
    before = contents(first.folder)
    with pytest.raises(ValueError, match="no such file"):
        fit(language(tmp_path, train=tmp_path / "none.txt"), first.folder, force=True)
    assert contents(first.folder) == before


@pytest.mark.parametrize(
    "files",
    [
        {"thesis.txt": "years of work"},
        {"config.yaml": "lr: 3\n", "thesis.txt": "years of work"},
        {"config.yaml": "task: lm\ntrain: a.txt\nmy_own: 3\n", "metrics.csv": "1,2", "thesis.txt": "years of work"},
        {"config.yaml": "task: lm\ntrain: a.txt\n", "thesis.txt": "years of work"},
        {"config.yaml": "][", "metrics.csv": "", "thesis.txt": "years of work"},
    ],
    ids=["files", "a config.yaml", "keys of their own", "a config of ours", "no YAML"],
)
@pytest.mark.parametrize("force", [True, False])
def test_a_directory_that_is_no_run_is_never_deleted(tmp_path, files, force):
    (tmp_path / "mine").mkdir()
    for name, text in files.items():
        (tmp_path / "mine" / name).write_text(text)
    with pytest.raises(RunError, match="mine: holds other files; give an empty or new directory"):
        fit(language(tmp_path), tmp_path / "mine", force=force)
    assert contents(tmp_path / "mine").keys() == set(map(Path, files))


def test_a_file_is_no_place(tmp_path):
    (tmp_path / "file").write_text("mine")
    for force in (True, False):
        with pytest.raises(RunError, match="file: is a file; a run needs a directory of its own"):
            fit(language(tmp_path), tmp_path / "file", force=force)
    assert (tmp_path / "file").read_text() == "mine"


def test_an_empty_directory_will_do_and_parents_are_made(tmp_path):
    (tmp_path / "empty").mkdir()
    fit(language(tmp_path, epochs=1), tmp_path / "empty")
    fit(language(tmp_path, epochs=1), tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c" / "model.safetensors").exists()


# ---------------------------------------------------------------- one process at a time


TRAINING = """
import sys, time
from helpers.tiny import fit, language
from carousel.training.module import Module
from pathlib import Path
step = Module.training_step
def slow(self, batch, index):
    Path(sys.argv[1], "going").touch()
    time.sleep(600)
    return step(self, batch, index)
Module.training_step = slow
fit(language(Path(sys.argv[1])), Path(sys.argv[1], "run"))
"""


@pytest.mark.slow
def test_a_directory_is_used_by_one_process(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    call = [sys.executable, "-c", TRAINING, str(tmp_path)]
    language(tmp_path)
    first = subprocess.Popen(call, env=environment, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 240
        while not (tmp_path / "going").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        config = (tmp_path / "run" / "config.yaml").read_bytes()
        for how in ({}, {"force": True}, {"resume": True}):
            with pytest.raises(RunError, match="another process is training in this directory"):
                fit(language(tmp_path), tmp_path / "run", **how)
        assert (tmp_path / "run" / "config.yaml").read_bytes() == config
    finally:
        first.kill()
        first.wait()
    fit(language(tmp_path), tmp_path / "run", force=True)  # the lock ended with the process


@pytest.mark.parametrize("how", [{}, {"force": True}, {"resume": True}])
def test_a_locked_directory_is_refused(tmp_path, how):
    settings = language(tmp_path)
    with Run(tmp_path / "run").locked():
        with pytest.raises(RunError, match="another process is training in this directory"):
            fit(settings, tmp_path / "run", **how)
        assert not list((tmp_path / "run").iterdir())


def test_a_lock_leaves_nothing_behind(tmp_path):
    with pytest.raises(SettingsError):
        trainer.train(LanguageTask, {"train": tmp_path / "none.txt", "epochs": 0}, tmp_path / "a" / "run")
    assert not (tmp_path / "a").exists()
    run = Run(tmp_path / "b" / "run")
    with run.locked(), run.locked():
        assert run.folder.is_dir()
    assert not (tmp_path / "b").exists()


def test_a_misspelt_key_of_a_resumed_run_has_its_line(finished, tmp_path):
    run = broken(finished, tmp_path, "config.yaml", finished.config.read_bytes().replace(b"hidden:", b"hiden:"))
    line = next(k for k, text in enumerate(finished.config.read_text().splitlines(), 1) if text.startswith("hidden:"))
    for read in (lambda: load_run(run.folder), lambda: trainer.resumed_settings(run, LanguageTask, {})):
        with pytest.raises(SettingsError, match=rf"config\.yaml:{line}: hiden: there is no such key; did you mean hid"):
            read()


# ---------------------------------------------------------------- stopped while it was set up


@pytest.mark.parametrize("moment", ["config", "assets", "manifest", "log"])
@pytest.mark.parametrize("how", [{}, {"force": True}, {"resume": True}])
def test_a_run_that_was_killed_while_it_was_set_up(finished, tmp_path, monkeypatch, moment, how):
    def die(*_):
        raise Killed

    settings = language(tmp_path)
    places = {
        "config": (trainer, "write_text"),
        "assets": (LanguageAssets, "save"),
        "manifest": (trainer, "write_manifest"),
        "log": (CSVLogger, "begin"),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*places[moment], die)
        with pytest.raises(Killed):
            fit(settings, tmp_path / "run")
    (tmp_path / "run" / ".config.yaml.123-abc.part").touch()
    if moment == "config" and "resume" in how:
        with pytest.raises(RunError, match="no run to resume; leave out resume=True to start one"):
            fit(settings, tmp_path / "run", **how)
        return
    run = fit(settings, tmp_path / "run", **how)
    assert run.result["epochs"] == 3 and not list(run.folder.glob(".*"))
    load_run(run.folder)


@pytest.mark.parametrize("given", [{}, {"dev": None}], ids=["dev", "no dev"])
def test_killed_between_the_first_weights_and_the_first_checkpoint(tmp_path, given):
    settings = language(tmp_path, **given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoints, "save_checkpoint", lambda *_, **__: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            fit(settings, tmp_path / "run")
    assert Run(tmp_path / "run").weights.exists() and not list(Run(tmp_path / "run").checkpoints.glob("*"))
    run = fit(settings, tmp_path / "run", resume=True)
    assert outcome(run) == outcome(fit(settings, tmp_path / "whole"))


def test_half_written_files_alone_are_not_a_run(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".config.yaml.123-abc.part").touch()
    run = fit(language(tmp_path), tmp_path / "run")
    assert run.result is not None


# ---------------------------------------------------------------- the log after a power failure


def test_what_is_written_reaches_the_disk(tmp_path, monkeypatch):
    """Content and names: every file of a finished run, the log too, and the directory after the last name in it."""
    synced, sync = {}, os.fsync

    def record(descriptor):
        sync(descriptor)
        synced[os.fstat(descriptor).st_ino] = os.fstat(descriptor).st_size

    monkeypatch.setattr(os, "fsync", record)
    run = fit(language(tmp_path, epochs=1), tmp_path / "run", report=True)
    files = [path for path in run.folder.rglob("*") if path.is_file() and "tensorboard" not in path.parts]
    assert len(files) > 7
    for path in files:
        assert synced.get(path.stat().st_ino) == path.stat().st_size, path
    assert {run.folder.stat().st_ino, run.checkpoints.stat().st_ino} <= synced.keys()


# ---------------------------------------------------------------- nothing is lost


def test_a_run_without_its_checkpoints_is_not_started_over(tmp_path):
    run = fit(language(tmp_path), tmp_path / "run")
    shutil.rmtree(run.checkpoints)
    (run.folder / "notes.txt").write_text("mine")
    before = contents(run.folder)
    with pytest.raises(RunError, match="no checkpoints to resume from; copy them from an intact copy of the run"):
        fit(language(tmp_path, epochs=5), run.folder, resume=True)
    assert contents(run.folder) == before


@pytest.mark.parametrize("damage", [None, "model.safetensors", "metrics.csv"])
def test_nor_if_its_first_epoch_was_the_best(tmp_path, damage):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CheckpointCallback, "_is_better", lambda self, *_: self.best is None)
        kill_at(patch, "batch", 2)
        with pytest.raises(Killed):
            fit(language(tmp_path), tmp_path / "run")
    run = Run(tmp_path / "run")
    assert run.weights_info()["epoch"] == 1 and run.result is None
    shutil.rmtree(run.checkpoints)
    if damage is not None:
        (run.folder / damage).write_bytes(b"\0" * 9)
    before = contents(run.folder)
    with pytest.raises(RunError, match="no checkpoints to resume from"):
        fit(language(tmp_path), run.folder, resume=True)
    assert contents(run.folder) == before


def test_a_name_alone_does_not_give_a_directory_away(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all my work")
    (tmp_path / "mine" / ".incomplete").touch()
    with pytest.raises(RunError, match="holds other files"):
        fit(language(tmp_path), tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "all my work"


def test_a_cell_that_fails_costs_no_run(tmp_path, monkeypatch):
    """It is tried before the run is replaced, and before a new directory is made."""
    run = fit(language(tmp_path), tmp_path / "run")
    before = contents(run.folder)
    cell = type("Broken", (Cell,), {"gates": ("f",), "step": lambda self, x, state, w, let: (x.g,)}, name="broken")
    monkeypatch.setattr("carousel.cells.spec._registry", {**registry(), "broken": cell})
    for folder, force in (("run", True), ("new", False)):
        with pytest.raises(AttributeError):
            fit(language(tmp_path, cell="broken"), tmp_path / folder, force=force)
    assert contents(run.folder) == before
    assert not (tmp_path / "new").exists()


def test_trying_a_step_changes_nothing(tmp_path):
    first, again = fit(language(tmp_path), tmp_path / "first"), fit(language(tmp_path, seed=1), tmp_path / "again")
    again = fit(language(tmp_path), again.folder, force=True)
    assert again.weights.read_bytes() == first.weights.read_bytes()


def test_a_run_without_a_step_is_not_in_the_way(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        loss = LanguageNetwork.loss
        patch.setattr(LanguageNetwork, "loss", lambda *given: loss(*given)._replace(mean=torch.tensor(math.nan)))
        with pytest.raises(CarouselError, match="the loss is nan at step 0"):
            fit(language(tmp_path), tmp_path / "run")
    assert fit(language(tmp_path), tmp_path / "run").started


def test_killed_while_a_run_is_replaced(tmp_path, monkeypatch):
    run = fit(language(tmp_path), tmp_path / "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            fit(language(tmp_path, seed=1), run.folder, force=True)
    run = fit(language(tmp_path, seed=1), run.folder)
    assert run.result["seed"] == 1


def test_damaged_weights_are_found_before_a_run_is_resumed(tmp_path):
    run = fit(language(tmp_path), tmp_path / "run")
    data = bytearray(run.weights.read_bytes())
    data[-5] ^= 1
    run.weights.write_bytes(bytes(data))
    with pytest.raises(RunError, match=r"model\.safetensors: damaged"):
        fit(language(tmp_path, epochs=5), run.folder, resume=True)


def test_a_directory_that_is_removed_and_made_again_is_locked_again(tmp_path):
    first = Run(tmp_path / "run")
    with first.locked():
        other = Run(tmp_path / "run")
        with pytest.raises(RunError, match="another process"), other.locked():
            pass
        assert first.folder.exists()
