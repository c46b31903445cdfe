"""The trials of a sweep as a table, the best first."""

from pathlib import Path

import pytest

from carousel.sweeps.results import Sweep, Trial, number_text
from carousel.sweeps.space import Choices


def trial(number, state="complete", value=None, **values):
    return Trial(number, state, value, values, Path("trials", str(number)), 1.5 if value else None, None)


def sweep(trials, lower=True):
    return Sweep(Path("sweep"), "lm", "perplexity", lower, {"hidden": Choices((4, 6))}, trials)


TRIALS = [trial(0, value=3.0, hidden=4), trial(1, "pruned", 1.0, hidden=6), trial(2, value=2.0, hidden=6),
          trial(3, "failed"), trial(4, value=2.0, hidden=4)]  # fmt: skip


@pytest.mark.parametrize(("lower", "order"), [(True, [2, 4, 0]), (False, [0, 2, 4])])
def test_complete_trials_are_ranked(lower, order):
    """A pruned trial is not among them, however good it was; of equals the earlier comes first."""
    one = sweep(TRIALS, lower)
    assert [t.number for t in one.complete] == order
    assert one.best.number == order[0] == one.as_dict()["best"]
    assert one.name_of_best == ("trial 2 (1 other as good)" if lower else "trial 0")


def test_the_table():
    columns, rows = sweep(TRIALS).rows()
    assert columns == ["trial", "dev perplexity", "state", "hidden", "minutes"]
    assert rows[0] == ["2", "2", "complete", "6", "1.5"]
    assert [row[2] for row in rows[3:]] == ["pruned", "failed"] and rows[4] == ["3", "", "failed", "", ""]
    assert len(str(sweep(TRIALS)).splitlines()) == 6


def test_nothing_complete():
    assert sweep([]).best is None and sweep([]).as_dict()["best"] is None
    assert sweep(TRIALS[3:4]).complete == []


def test_numbers_are_short():
    assert (number_text(0.00012345678), number_text(6), number_text(True)) == ("0.0001235", "6", "true")
