"""Trials are claimed once, and fail alone."""

import os

import pytest
from helpers.sweeps import run, worker

from carousel.errors import RunError


def test_each_trial_is_claimed_once(text, tmp_path):
    first, second = worker(text, tmp_path / "sweep", 2), worker(text, tmp_path / "sweep", 2)
    zero, claim = first._claim()
    one, other = second._claim()
    assert (zero.number, one.number) == (0, 1)
    assert first._claim() is None and second._claim() is None  # both are under way, and there are no more
    values = zero.params
    os.close(claim)  # as the kernel does when a process ends
    again, claim = second._claim()
    assert again.number == 0 and again.params == values
    second.study.tell(0, 1.0)
    os.close(claim)
    assert first._claim() is None  # finished
    os.close(other)


@pytest.mark.learning
def test_a_failure_is_the_trial_s_alone_unless_all_fail(text, tmp_path, monkeypatch):
    from carousel.training import several

    train, bad = several.train, {1}

    def failing(task, values, run, **options):
        if int(run.folder.name) in bad:
            raise RuntimeError("no such luck")
        return train(task, values, run, **options)

    monkeypatch.setattr(several, "train", failing)
    sweep = run(text, tmp_path / "sweep")
    assert [trial.state for trial in sweep.trials] == ["complete", "failed", "complete"]
    assert sweep.trials[1].error == "RuntimeError: no such luck"
    bad |= set(range(9))
    with pytest.raises(RunError, match="all of the first 3 trials failed; the last: RuntimeError: no such luck"):
        run(text, tmp_path / "failing", trials=9)


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_no_two_trials_have_the_same_values(text, tmp_path, sampler):
    vary = {"hidden": [4, 6], "bptt": {"low": 3, "high": 5}, "dropout": "0..0.3:0.1"}
    own = worker(text, tmp_path / "sweep", 30, vary=vary, sampler=sampler)
    found = []
    while (claimed := own._claim()) is not None:
        trial, claim = claimed
        own.study.tell(trial.number, 1.0)
        found.append(tuple(trial.params.values()))
        os.close(claim)
    assert len(found) == len(set(found)) == 2 * 3 * 4
    assert {round(value, 6) for _, _, value in found} == {0.0, 0.1, 0.2, 0.3}


def test_a_range_of_numbers_never_ends(text, tmp_path):
    own = worker(text, tmp_path / "sweep", 5, vary={"hidden": [4, 6], "lr": "1e-4..1e-2"})
    found = []
    while (claimed := own._claim()) is not None:
        own.study.tell(claimed[0].number, 1.0)
        found.append(tuple(claimed[0].params.values()))
        os.close(claimed[1])
    assert len(set(found)) == 5
