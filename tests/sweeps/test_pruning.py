"""A trial that is worse than the others ends early."""

import os

import pytest
from helpers.sweeps import run, worker

from carousel.training import Run


@pytest.mark.learning
def test_a_pruned_trial_ends_early_and_the_decision_is_kept(text, tmp_path, monkeypatch):
    import optuna

    class Second(optuna.pruners.BasePruner):
        def prune(self, study, trial):
            return trial.number == 1

    monkeypatch.setattr(optuna.pruners, "MedianPruner", lambda **options: Second())
    sweep = run(text, tmp_path / "sweep", epochs=3)
    assert [trial.state for trial in sweep.trials] == ["complete", "pruned", "complete"]
    assert [Run(trial.run).result["epochs"] for trial in sweep.trials] == [3, 1, 3]
    assert sweep.best.number != 1
    # Killed after the run had ended, before its state was written: the decision holds, nothing is trained again.
    own = worker(text, tmp_path / "other", 1)
    trial, claim = own._claim()
    trial.set_user_attr("pruned", 1)
    folder = tmp_path / "other/trials/0"
    folder.parent.mkdir()
    os.rename(tmp_path / "sweep/trials/1", folder)
    trial.report(3.0, 1)
    own._train(trial)
    os.close(claim)
    assert own.study.trials[0].state.name == "PRUNED"
