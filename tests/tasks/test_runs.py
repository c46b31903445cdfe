"""Which task a run directory is of, and what is said of one that cannot be loaded."""

import pytest
import yaml

import carousel
from carousel.errors import RunError, SettingsError
from carousel.tasks import find
from carousel.tasks.runs import load_run, runs_of, settings_of, task_of
from carousel.training import Run

SMALL = {"epochs": 1, "threads": 1, "quiet": True, "report": False, "hidden": 4, "embedding": 4}


@pytest.fixture
def run(tmp_path):
    carousel.train("lm", ["abba", "a cab"], out=tmp_path / "run", cache=tmp_path / "cache", **SMALL)
    return Run(tmp_path / "run")


def change(run, **values):
    config = yaml.safe_load(run.config.read_text())
    run.config.write_text(yaml.safe_dump({**config, **values}))


def test_task_settings_and_model(run):
    assert task_of(run) is find("lm")
    task, settings = settings_of(run)
    assert (task.name, settings.hidden) == ("lm", 4)
    model = load_run(run.folder)
    assert not model.network.training and model.origin.startswith(f"{run.folder}, ")


def test_a_task_or_a_cell_that_is_not_known_here(run):
    change(run, task="lmm")
    with pytest.raises(SettingsError, match=r"task: there is no 'lmm'; did you mean lm\?"):
        task_of(run)
    change(run, task="weather of tomorrow")
    with pytest.raises(RunError, match=r"which is not known here; give task='FILE\.py:CLASS'"):
        task_of(run)
    change(run, task="lm", cell="mine")
    with pytest.raises(RunError, match="the cell 'mine' is not known here"):
        settings_of(run)


def test_without_weights(run):
    run.weights.unlink()
    with pytest.raises(RunError, match=r"model\.safetensors: missing; copy it"):
        load_run(run.folder)


def test_runs_that_have_weights(run):
    class Several:
        seeds = 2

    assert runs_of(run, object()) == [run]
    assert [one.folder for one in runs_of(run, Several)] == [run.folder / "members" / k for k in "12"]
