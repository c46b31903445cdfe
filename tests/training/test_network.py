"""What a network has for the trainer unless it says otherwise."""

import pytest
import torch
from torch import nn

from carousel.metrics import Confusion
from carousel.training.network import Loss, Metric, Network, SummedMetric


class Mean(Metric):
    best = "mean"

    def __init__(self):
        self.values = []

    def add(self, batch):
        self.values += batch

    def merge(self, other):
        self.values += other.values

    def result(self):
        return {"mean": sum(self.values) / len(self.values)}


class Line(Network):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def loss(self, batch):
        return Loss(self.layer(batch).mean(), len(batch))

    def metric(self):
        return Mean()


class Sums(SummedMetric):
    """Parts of every kind."""

    sums = ("count", "values", "tensor", "confusion")

    def __init__(self, *labels):
        self.count, self.values, self.tensor = len(labels), list(labels), torch.tensor([float(sum(labels))])
        self.confusion = Confusion(["a", "b"])
        self.confusion.add(torch.tensor(labels), torch.zeros(len(labels), dtype=torch.long))
        self.other = labels

    def add(self, batch):
        raise NotImplementedError

    def result(self):
        return {"accuracy": self.confusion.accuracy}


def test_the_parts_of_a_summed_metric_are_added():
    one, other = Sums(0, 1), Sums(1, 1, 0)
    one.merge(other)
    assert (one.count, one.values, one.tensor.item(), one.result()) == (5, [0, 1, 1, 1, 0], 3.0, {"accuracy": 2 / 5})
    assert one.other == (0, 1)
    assert (other.count, other.values, other.tensor.item(), other.result()["accuracy"]) == (3, [1, 1, 0], 2.0, 1 / 3)


def test_its_size_is_the_number_of_parameters():
    assert Line().size == 3 * 2 + 2


def test_it_carries_nothing_unless_it_says_so():
    network = Line()
    assert network.carried == {}
    network.carried = {}
    with pytest.raises(ValueError, match="Line carries nothing from batch to batch"):
        network.carried = {"h": torch.zeros(1)}


def test_a_loss_and_a_result_as_a_reader_sees_them():
    assert Line().describe_loss()(0.25) == "loss 0.2500"
    assert Line().metric().label("dev_f1") == "dev F1"


def test_loss_and_metric_must_be_written():
    class Nothing(Network):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Nothing()
