"""A task from outside the package, in one file: the next value of numbers, one sequence on each line."""

from pathlib import Path
from typing import Literal

import torch
from torch import nn

import carousel
from carousel.tasks.base import Model, Task
from carousel.training import Data, Loss, Metric, Network, Settings, key


class SensorSettings(Settings):
    task: Literal["sensor"] = key("sensor", "the task", "data")
    train: Path = key(..., "a file of numbers, one sequence on each line", "data")
    dev: Path | None = key(None, "likewise, to choose the best epoch by", "data")
    hidden: int = key(4, "units", "model", ge=1)


class Sequences:
    """One sequence for each batch, in an order that (seed, epoch) fixes."""

    def __init__(self, path, seed=None):
        with open(path) as file:
            self.rows = [[float(cell) for cell in line.split()] for line in file]
        self.seed, self.epoch, self.next = seed, 0, 0

    def __len__(self):
        return len(self.rows)

    def __iter__(self):
        generator = torch.Generator().manual_seed(1000 * (self.seed or 0) + self.epoch)
        order = range(len(self)) if self.seed is None else torch.randperm(len(self), generator=generator).tolist()
        for place in range(self.next, len(self)):
            self.next = (place + 1) % len(self)
            yield torch.tensor(self.rows[order[place]]).view(-1, 1, 1)

    def set_epoch(self, epoch):
        if epoch != self.epoch:
            self.epoch, self.next = epoch, 0

    def state_dict(self):
        return {"epoch": self.epoch, "next": self.next, "rows": self.rows}

    def load_state_dict(self, state):
        self.epoch, self.next = state["epoch"], state["next"]


class Scale:
    """The mean of the training data, which the network subtracts."""

    def __init__(self, mean):
        self.mean = mean

    def save(self, folder):
        (folder / "scale.txt").write_text(repr(self.mean))


class SensorNetwork(Network):
    def __init__(self, settings, scale):
        super().__init__()
        self.settings, self.scale = settings, scale
        self.layer = carousel.GRU(1, settings.hidden)
        self.output = nn.Linear(settings.hidden, 1)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return self.output(self.drop(self.layer(x - self.scale.mean)[0])) + self.scale.mean

    def loss(self, batch):
        return Loss((self(batch[:-1]) - batch[1:]).square().mean(), len(batch) - 1)

    def metric(self):
        return Error(self)


class Error(Metric):
    best = "error"
    lower_is_better = True

    def __init__(self, network):
        self.network, self.total, self.count = network, 0.0, 0

    @torch.no_grad()
    def add(self, batch):
        self.total += float((self.network(batch[:-1]) - batch[1:]).square().sum())
        self.count += len(batch) - 1

    def merge(self, other):
        self.total += other.total
        self.count += other.count

    def result(self):
        return {"error": self.total / max(1, self.count)}


class SensorModel(Model):
    name = "sensor"
    columns = ("next",)

    def evaluate(self, path):
        metric = self.network.metric()
        for batch in Sequences(path):
            metric.add(batch)
        return metric.result()

    @torch.no_grad()
    def predict_lines(self, lines):
        for line in lines:
            x = torch.tensor([float(cell) for cell in line.split()]).view(-1, 1, 1)
            yield {"next": round(self.network(x)[-1].item(), 6)}


class Sensor(Task):
    name = "sensor"
    help = "Train a sensor, on numbers."
    Settings = SensorSettings

    @classmethod
    def prepare(cls, settings, assets=None):
        train = Sequences(settings.train, settings.seed)
        values = [value for row in train.rows for value in row]
        dev = None if settings.dev is None else Sequences(settings.dev)
        return assets or Scale(sum(values) / len(values)), Data(train, dev)

    @classmethod
    def load_assets(cls, settings, folder):
        return Scale(float((folder / "scale.txt").read_text()))

    @classmethod
    def make_network(cls, settings, assets):
        return SensorNetwork(settings, assets)

    @classmethod
    def make_model(cls, network, assets):
        return SensorModel(network, assets)

    @classmethod
    def write_data(cls, data, stem, settings):
        stem.parent.mkdir(parents=True, exist_ok=True)
        stem.with_suffix(".txt").write_text("".join(" ".join(map(str, row)) + "\n" for row in data))
        return stem.with_suffix(".txt")
