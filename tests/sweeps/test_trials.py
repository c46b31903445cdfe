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
