"""Gradient clipping: against torch's own, and a step of descent by differences."""

import math

import pytest
import torch

from carousel import lab
from carousel.lab.claim import Outcome
from carousel.lab.claims import clipping


@pytest.mark.parametrize("threshold", [0.1, 5.0, 100.0])
def test_clipping_is_torch_s_own(threshold):
    given = torch.tensor([3.0, -4.0])
    one = torch.nn.Parameter(torch.zeros(2))
    one.grad = given.clone()
    torch.nn.utils.clip_grad_norm_([one], threshold)
    torch.testing.assert_close(clipping.clip(given, "norm", threshold), one.grad, atol=1e-5, rtol=1e-5)
    one.grad = given.clone()
    torch.nn.utils.clip_grad_value_([one], threshold)
    assert torch.equal(clipping.clip(given, "value", threshold), one.grad)


def test_a_step_of_descent_by_differences():
    result = lab.clipping(20, thresholds=[1.0], starts=2)
    loss = lambda w, b: float(clipping.surface(*(torch.tensor([v], dtype=torch.float64) for v in (w, b))))  # noqa: E731
    free = result.descents[0]
    w, b = free.path[7, 1].tolist()
    assert free.losses[7, 1].item() == pytest.approx(loss(w, b))
    slope = ((loss(w + 1e-6, b) - loss(w - 1e-6, b)) / 2e-6, (loss(w, b + 1e-6) - loss(w, b - 1e-6)) / 2e-6)
    assert free.path[8, 1].tolist() == pytest.approx((w - 0.1 * slope[0], b - 0.1 * slope[1]), abs=1e-6)


def test_a_clipped_descent_that_falls_off_the_cliff_does_not_count():
    """At this rate threshold 10 ends where plain descent ends, which is no success of clipping."""
    result = lab.clipping(300, lr=0.5, starts=1, thresholds=[10.0, 1.0], seeds=1)
    free, late, early, by_value = result.measured["descents"]
    assert free["first"]["losses"][-1] == pytest.approx(late["first"]["losses"][-1], abs=1e-4)
    assert (free["arrived"], late["arrived"], early["arrived"]) == ([0], [0], [1])
    assert early["turned"] < 1e-6 < by_value["turned"]
    assert result.verdicts()["algorithm"].short == "holds"
    assert result.verdicts()["region"].short == "not decided by this run"  # it takes five seeds
    region = result.claims[1]
    assert region.decide(result.measured, region.tolerance).short == "holds for threshold 1"
    descents = [free, late, by_value]
    assert region.decide({**result.measured, "descents": descents}, region.tolerance).outcome is Outcome.FAILS


@pytest.mark.parametrize("w", [4.5, 5.0, 6.0])
def test_the_cliff_is_where_the_state_begins_between_rising_and_falling(w):
    """On b = −w/2, where h = 0.5 is the unstable fixed point; the lower one disappears at a larger b."""
    b = torch.tensor([-w / 2 - 0.01, -w / 2 + 0.01], dtype=torch.float64)
    below, above = clipping.surface(torch.tensor([w], dtype=torch.float64), b)[0].tolist()
    assert above < 0.1 < 0.2 < below
    lower = (1 - math.sqrt(1 - 4 / w)) / 2  # where the slope w h (1 − h) is 1
    assert math.log(lower / (1 - lower)) - w * lower > -w / 2 + 0.01


def test_starts_are_counted_for_each_seed():
    together = lab.clipping(20, thresholds=[1.0], starts=3, seeds=2).measured
    alone = lab.clipping(20, thresholds=[1.0], starts=3, seeds=1, seed=1).measured
    for both, one in zip(together["descents"], alone["descents"], strict=True):
        assert both["final"][4:] == pytest.approx(one["final"][1:])  # the very first start is not drawn
        assert len(both["arrived"]) == together["seeds"][-1] + 1 == 2


def test_a_descent_that_cannot_be():
    for wrong, said in (({"thresholds": [0.0]}, "thresholds must be"), ({"lr": 0.0}, "lr must be above 0")):
        with pytest.raises(ValueError, match=said):
            lab.clipping(5, **wrong)
