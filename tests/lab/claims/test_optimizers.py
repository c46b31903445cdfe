"""Four optimizers: verdicts from trainings made by hand."""

import math

import pytest

from carousel import lab
from carousel.lab.claims import optimizers
from carousel.lab.claims.optimizers import OPTIMIZERS, Optimizers, Trained
from carousel.lab.learning import Curve

STEPS = tuple(range(5, 105, 5))


def going(updates, perplexity):
    """A training whose loss is 3 at first and 2 after so many updates (never: inf); it ends at this perplexity."""
    losses = tuple(2.0 if step >= updates else 3.0 for step in STEPS)
    return Curve(STEPS, losses, (9.0, perplexity), math.isinf(perplexity))


def trained(seeds=5, **runs):
    """A finding in which each optimizer, by rate, takes so many updates and ends at a perplexity, with every seed."""
    every = [
        Trained(name, rate, (going(*one),) * seeds) for name, by_rate in runs.items() for rate, one in by_rate.items()
    ]
    return Optimizers(tuple(every), 100, 2, tuple(range(seeds)), 0.0)


AT = {
    "rmsprop": {0.01: (50, 3.0)},
    "adam": {0.01: (55, 3.1)},
    "sgd": {0.01: (math.inf, 9.0), 1.0: (90, 5.9)},
    "adadelta": {0.01: (100, 9.5), 1.0: (85, 4.0)},
}


def shorts(finding):
    return {key: verdict.short for key, verdict in finding.verdicts().items()}


def test_the_verdicts_by_hand():
    assert shorts(trained(**AT)) == {"fastest": "holds", "adam": "holds", "slow": "holds"}
    assert trained(**AT).best("sgd").rate == 1.0
    behind = shorts(trained(**{**AT, "adam": {0.01: (65, 3.1)}}))  # more than a little
    assert behind["adam"] == "does not hold as printed"
    at_one_rate = {**AT, "adadelta": {0.01: (100, 9.5), 30.0: (45, 2.9)}}
    assert shorts(trained(**at_one_rate))["fastest"] == "holds for a rate of 0.01 for all"
    assert shorts(trained(**at_one_rate))["slow"] == "holds for a rate of 0.01 for all"
    assert shorts(trained(**{**AT, "adam": {0.01: (45, 3.1)}}))["fastest"] == "does not hold as printed"
    assert shorts(trained(rmsprop={0.01: (50, 3.0)}))["fastest"] == "not decided by this run"
    assert shorts(trained(seeds=4, **AT))["fastest"] == "not decided by this run"
    found = trained(**AT)
    assert "SGD, momentum 0.9 not in 100" in found.verdicts()["slow"].reason
    assert "Adam takes 1.10 times the updates of RMSprop with a rate of 0.01 for all" in found.verdicts()["adam"].reason
    table = {row[0]: row[1:] for row in found.table(found.measured)[1]}
    assert table["SGD, momentum 0.9"] == ["not in 100", "9.00", "1", "90", "5.90"]
    diverged = trained(**{**AT, "sgd": {0.01: (math.inf, math.inf), 1.0: (90, 5.9)}})
    assert diverged.table(diverged.measured)[1][2][2] == "diverges"


def test_speed_is_counted_in_updates_not_by_where_a_training_ends():
    """RMSprop reaches the loss first and ends highest: it is the fastest all the same; and the other way round."""
    first = {**AT, "rmsprop": {0.01: (50, 20.0)}}
    assert shorts(trained(**first))["fastest"] == "holds"
    last = {**AT, "rmsprop": {0.01: (60, 2.0)}}
    assert shorts(trained(**last))["fastest"] == "does not hold as printed"


def test_what_did_not_get_far_enough_is_not_compared():
    """At 0.01 Adam and SGD do not reach RMSprop's loss, so that it is not known which of the two is slower."""
    updates = {"rmsprop": (80, 50), "adam": (math.inf, 55), "sgd": (math.inf, 100), "adadelta": (math.inf, 100)}
    late = {name: {0.01: (at, 20.0), 0.1: (own, 3.0)} for name, (at, own) in updates.items()}
    assert shorts(trained(**late)) == {
        "fastest": "holds",
        "adam": "holds for each optimizer's own best rate",  # 100 updates are more than 1.2 times 80
        "slow": "holds for each optimizer's own best rate",
    }
    late["rmsprop"][0.01] = (90, 20.0)  # 100 are less than 1.2 times 90
    assert shorts(trained(**late))["adam"] == "holds for each optimizer's own best rate"
    late["sgd"][0.1] = (60, 3.0)
    assert shorts(trained(**late))["slow"] == "not decided by this run"
    assert optimizers.slower(60, math.inf, 1.5, 100) is False
    assert optimizers.slower(math.inf, math.inf, 1.5, 100) is None


def test_where_seeds_disagree_nothing_is_decided():
    found = trained(**AT)
    two = going(45, 3.1)
    runs = [
        one if one.optimizer != "adam" else Trained("adam", one.rate, (two, *one.curves[1:])) for one in found.trained
    ]
    verdict = Optimizers(tuple(runs), 100, 2, found.seeds, 0.0).verdicts()["fastest"]
    assert verdict.short == "not decided by this run"
    assert "4 of 5" in verdict.reason


def test_means_over_seeds_leave_out_what_diverged():
    one = Curve((5, 10, 15), (3.0, 2.0, 1.0), (7.0, 5.0), False)
    two = Curve((5, 10, 15), (3.0, 1.0, 1.0), (7.0, 3.0), False)
    both = Trained("adam", 0.01, (one, two))
    assert both.perplexities == [5.0, 3.0]
    assert both.curve.losses == (3.0, 1.5, 1.0)
    assert both.updates_to(2.5) == [10, 10] and both.updates_to(1.5) == [15, 10] and both.updates_to(1.0) == [None] * 2
    lost = Trained("sgd", 1.0, (one, Curve((5,), (9.0,), (), True)))
    assert lost.perplexities == [5.0, None]
    assert lost.curve.losses == one.losses


@pytest.mark.learning
def test_four_optimizers_are_run(tmp_path):
    found = lab.optimizers([0.05], lines=64, epochs=1, seeds=1)
    assert [(one.optimizer, one.rate) for one in found.trained] == [
        (name, rate) for name in OPTIMIZERS for rate in (0.01, 0.05)
    ]
    ends = {one.perplexities[0] for one in found.trained}
    assert len(ends) == 8  # no two are the same training
    page = found.write(tmp_path / "page").read_text("utf-8")
    assert "hold?" in page
    assert {p.stem for p in (tmp_path / "page").glob("*.svg")} == {"loss", "rates"}
    with pytest.raises(ValueError, match="rates must be numbers above 0"):
        lab.optimizers([0.0])
    with pytest.raises(ValueError, match="seeds must be a whole number from 1 up"):
        optimizers.run(seeds=0)
