"""A task of three numbers whose dev metric is what a test says, so that everything can be worked out by hand."""

from typing import Literal

import torch
from torch import Tensor, nn

from carousel.tasks.base import Model, Task
from carousel.training import Data, Loss, Metric, Network, Settings, key


class StubSettings(Settings):
    task: Literal["stub"] = key("stub", "the task", "data")


class Numbers:
    """Batches that are the numbers of a list, in its order."""

    def __init__(self, numbers):
        self.numbers = numbers
        self.next = 0

    def __iter__(self):
        for index in range(self.next, len(self)):
            self.next = (index + 1) % len(self)
            yield torch.tensor(self.numbers[index])

    def __len__(self):
        return len(self.numbers)

    def set_epoch(self, epoch):
        pass

    def state_dict(self):
        return {"next": self.next}

    def load_state_dict(self, state):
        self.next = state["next"]


class StubNetwork(Network):
    """Three weights that are pulled towards each batch's number: the loss is ½|w − batch|², its gradient w − batch."""

    def __init__(self, settings, task):
        super().__init__()
        self.settings, self.task = settings, task
        self.epochs = 0  # that the metric has seen
        self.weight = nn.Parameter(torch.zeros(3))

    def loss(self, batch: Tensor) -> Loss:
        return self.task.loss(self, batch)

    def metric(self):
        return Luck(self)


class Luck(Metric):
    """The metric of the epoch, and the weight that was evaluated."""

    best = "luck"

    def __init__(self, network):
        self.network = network
        self.lower_is_better = network.task.lower_is_better
        self.seen = float("nan")

    def add(self, batch):
        self.seen = float(self.network.weight[0].detach())
        self.network.epochs += 1

    def merge(self, other):
        self.seen = other.seen

    def result(self):
        epochs = self.network.epochs
        task = self.network.task
        result = {"luck": task.metrics[epochs - 1] if epochs else 0.0, "weight": self.seen}
        return {**result, "loss": task.losses[epochs - 1] if epochs else 0.0} if task.losses else result


class StubModel(Model):
    name = "stub"


class Nothing:
    def save(self, folder):
        pass


class Stub(Task):
    name = "stub"
    Settings = StubSettings
    lower_is_better = True
    metrics: tuple = ()  # the dev metric after each epoch
    losses: tuple = ()  # and its loss, if it has one
    targets: tuple = (1.0, -1.0, 3.0)

    def loss(self, batch: Tensor) -> Loss:
        """That of a network, `self`; a test may give another."""
        return Loss((self.weight - batch).square().sum() / 2, 1)

    @classmethod
    def prepare(cls, settings, assets=None):
        return Nothing(), Data(Numbers(list(cls.targets)), Numbers([0.0]) if cls.metrics else None)

    @classmethod
    def load_assets(cls, settings, folder):
        return Nothing()

    @classmethod
    def make_network(cls, settings, assets):
        return StubNetwork(settings, cls)

    @classmethod
    def make_model(cls, network, assets):
        return StubModel(network, assets)


def register(monkeypatch, **attributes):
    """Let `stub` be a task that runs can name; the class, with these attributes."""
    return type("Stub", (Stub,), {"name": "stub", "__module__": __name__, **attributes})


def sgd(targets, epochs, lr):
    """The weight after each step, worked out by hand."""
    weight, after = 0.0, []
    for _ in range(epochs):
        for target in targets:
            weight -= lr * (weight - target)
            after.append(weight)
    return after
