"""Networks as one: means of probabilities, and attributes of the first member."""

import pytest
import torch
from torch import nn

from carousel.tasks.shared.ensemble import Ensemble, mean_log_prob, with_members
from carousel.training.network import Network


class One(Network):
    def __init__(self, value):
        super().__init__()
        self.settings, self.layer = {"value": value}, nn.Linear(2, 2)

    def loss(self, batch):
        raise NotImplementedError

    def metric(self):
        raise NotImplementedError


class Several(Ensemble, One):
    pass


def test_the_mean_is_that_of_probabilities():
    scores = [torch.randn(4, 3, dtype=torch.float64) + 5 for _ in range(3)]
    mean = sum(one.softmax(-1) for one in scores) / 3
    torch.testing.assert_close(mean_log_prob(scores).exp(), mean)
    torch.testing.assert_close(mean_log_prob(scores[:1]), scores[0].log_softmax(-1))
    impossible = torch.tensor([0.0, -torch.inf])
    assert mean_log_prob([impossible, impossible]).tolist() == [0.0, -torch.inf]


def test_what_it_has_not_is_of_its_first_member():
    members = [One(1), One(2)]
    both = Several(members)
    assert both.layer is members[0].layer and both.settings == {"value": 1}
    assert both.size == 2 * members[0].size
    with pytest.raises(AttributeError, match="nothing"):
        _ = both.nothing


def test_an_evaluation_with_the_spread_of_members():
    class Model:
        def __init__(self, value, members=()):
            self.value, self.members = value, members

        @with_members
        def evaluate(self, scale, *, plus=0):
            return {"metric": self.value * scale + plus, "count": 3}

    assert Model(0.5).evaluate(2.0) == {"metric": 1.0, "count": 3}
    both = Model(0.5, [Model(1.0), Model(3.0)])
    result = both.evaluate(2.0, plus=1.0)
    assert result == {"metric": 2.0, "count": 3, "members": {"metric": {"mean": 5.0, "sd": pytest.approx(8**0.5)}}}
