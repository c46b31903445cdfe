"""Sweeps: trials are runs, none is lost or trained twice, and a killed sweep ends as one that was not."""

import json
import signal
import subprocess
import sys

import pytest

pytest.importorskip("optuna")

from helpers.sweeps import TINY, VARY, run

import carousel
from carousel.errors import ArgumentError, RunError, SettingsError
from carousel.sweeps import sweep as sweeps
from carousel.training import Run


def outcome(sweep):
    return [(trial.number, trial.state, trial.value, trial.values) for trial in sweep.trials]


@pytest.mark.learning
def test_a_sweep_and_its_continuation(text, tmp_path):
    sweep = run(text, tmp_path / "sweep", trials=2, hidden=6)
    assert [trial.state for trial in sweep.trials] == ["complete", "complete"]
    assert sweep.trials[0].values == {"lr": 0.004, "hidden": 6}  # what was given, or is the default, is tried first
    best = min(sweep.trials, key=lambda trial: trial.value)
    assert sweep.best == best
    for trial in sweep.trials:
        assert Run(trial.run).result["dev_perplexity"] == trial.value
        assert Run(trial.run).config_values()["hidden"] == trial.values["hidden"]
    before = {trial.number: (trial.run / "model.safetensors").stat().st_mtime_ns for trial in sweep.trials}
    more = run(text, tmp_path / "sweep", trials=4, hidden=6)
    assert outcome(more)[:2] == outcome(sweep)
    assert len(more.trials) == 4
    assert len({json.dumps(trial.values) for trial in more.trials}) == 4  # a new process does not draw the same again
    assert before == {k: (more.trials[k].run / "model.safetensors").stat().st_mtime_ns for k in before}
    assert (tmp_path / "sweep/best").resolve() == more.best.run.resolve()
    assert carousel.load(tmp_path / "sweep/best").evaluate(text)["perplexity"] == pytest.approx(more.best.value)
    page = (tmp_path / "sweep/report.html").read_text("utf-8")
    assert all(title in page for title in ("Parallel coordinates", "Importance", "History"))
    assert len(str(more).splitlines()) == 5
    with pytest.raises(RunError, match=r"sweep.json: hidden was 6, is 4 now; give what the sweep began with"):
        run(text, tmp_path / "sweep", trials=4, hidden=4)


KILLED = """
import os, signal, sys
import carousel
from carousel.sweeps.pruning import Pruning

class Killer(Pruning):
    def on_train_batch_start(self, trainer, module, batch, index):
        if self.trial.number == 1 and trainer.current_epoch == 1:
            os.kill(os.getpid(), signal.SIGKILL)

import carousel.sweeps.pruning
carousel.sweeps.pruning.Pruning = Killer
text, out = sys.argv[1:3]
"""


@pytest.mark.slow
@pytest.mark.learning
def test_a_sweep_killed_within_a_trial_ends_as_one_that_was_not(text, tmp_path):
    call = f"carousel.sweep('lm', text, dev=text, out=out, vary={VARY!r}, trials=2, **{TINY!r})"
    killed = subprocess.run([sys.executable, "-c", KILLED + call, text, str(tmp_path / "killed")], capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2000:]
    assert not Run(tmp_path / "killed/trials/1").result_file.exists()
    with open(tmp_path / "killed/journal.log", "ab") as journal:
        journal.write(b'{"op_code":4,"wor')  # killed while it wrote a line
    continued, whole = (run(text, tmp_path / name, trials=2) for name in ("killed", "whole"))
    assert outcome(continued) == outcome(whole)
    assert [trial.state for trial in continued.trials] == ["complete"] * 2
    for number in range(2):
        one, other = (tmp_path / name / "trials" / str(number) / "model.safetensors" for name in ("killed", "whole"))
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.learning
def test_data_in_memory(tmp_path):
    reviews = [("a fine film", "good"), ("dull", "bad")] * 4
    options = {"vary": {"hidden": [2, 3]}, "trials": 1, "epochs": 1, "quiet": True, "threads": 1}
    sweep = carousel.sweep("classify", reviews, dev=reviews, out=tmp_path / "sweep", **options)
    assert sweep.best.number == 0
    with pytest.raises(RunError, match="the data given for train is not that of the sweep"):
        carousel.sweep("classify", reviews[1:], dev=reviews, out=tmp_path / "sweep", **options)
    with pytest.raises(SettingsError, match="there is no such key"):
        carousel.sweep("classify", reviews, dev=reviews, out=tmp_path / "new", **{**options, "vary": {"h": [2, 3]}})
    assert not list(tmp_path.glob("new/*"))


def test_bad_arguments(text, tmp_path, monkeypatch):
    with pytest.raises(SettingsError, match=r"a sweep needs a dev set, .*; give dev"):
        carousel.sweep("lm", text, out=tmp_path / "sweep", vary=VARY, **TINY)
    with pytest.raises(ArgumentError, match="trials must be"):
        run(text, tmp_path / "sweep", trials=0)
    with pytest.raises(ArgumentError, match="sampler: there is no 'grid'"):
        run(text, tmp_path / "sweep", sampler="grid")
    with pytest.raises(SettingsError, match="nothing to vary"):
        carousel.sweep("lm", text, dev=text, out=tmp_path / "sweep", vary={}, **TINY)
    assert not (tmp_path / "sweep").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes.txt").write_text("mine")
    with pytest.raises(RunError, match="holds other files"):
        run(text, tmp_path / "full")
    monkeypatch.setattr(sweeps.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ArgumentError, match=r"needs the package optuna: pip install 'carousel-rnn\[sweep\]'"):
        run(text, tmp_path / "sweep")
