"""A task from outside the package, in one file: the next value of numbers, one sequence on each line."""

from pathlib import Path
from typing import Literal

import torch
from torch import nn

import carousel
from carousel.training import Data, Loss, Settings, Task, key


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


class Sensor(Task):
    name = "sensor"
    help = "Train a sensor, on numbers."
    Settings = SensorSettings
    metric = "error"
    columns = ("next",)

    def __init__(self, settings):
        super().__init__()
        self.settings = settings
        self.layer = carousel.GRU(1, settings.hidden)
        self.output = nn.Linear(settings.hidden, 1)
        self.drop = nn.Dropout(0.1)

    @classmethod
    def prepare(cls, settings, network=None):
        dev = None if settings.dev is None else Sequences(settings.dev)
        return network or cls(settings), Data(Sequences(settings.train, settings.seed), dev)

    @classmethod
    def restore(cls, settings, folder):
        return cls(settings)

    def keep(self, folder):
        pass

    @classmethod
    def write_data(cls, data, stem, settings):
        stem.parent.mkdir(parents=True, exist_ok=True)
        stem.with_suffix(".txt").write_text("".join(" ".join(map(str, row)) + "\n" for row in data))
        return stem.with_suffix(".txt")

    def forward(self, x):
        return self.output(self.drop(self.layer(x)[0]))

    def loss(self, batch):
        return Loss((self(batch[:-1]) - batch[1:]).square().mean(), len(batch) - 1)

    def meter(self):
        return Error(self)

    def evaluate(self, path):
        metric = self.meter()
        for batch in Sequences(path):
            metric.add(batch)
        return metric.result()

    @torch.no_grad()
    def predict_lines(self, lines):
        for line in lines:
            x = torch.tensor([float(cell) for cell in line.split()]).view(-1, 1, 1)
            yield {"next": round(self(x)[-1].item(), 6)}


class Error:
    def __init__(self, model):
        self.model, self.total, self.count = model, 0.0, 0

    @torch.no_grad()
    def add(self, batch):
        self.total += float((self.model(batch[:-1]) - batch[1:]).square().sum())
        self.count += len(batch) - 1

    def merge(self, other):
        self.total += other.total
        self.count += other.count

    def result(self):
        return {"error": self.total / max(1, self.count)}
