"""The engine against a bare loop in plain PyTorch: the same batches, losses, learning rates and weights."""

import math

import lightning.pytorch as lightning
import pytest
import torch
import torch.nn.functional as F
from helpers.tiny import fit, language
from safetensors.torch import load_file
from torch import nn

from carousel.tasks.lm.task import LanguageTask
from carousel.training.csv_logger import read_metrics

PLAIN = {"dropout": 0.0, "log_steps": 1, "epochs": 2, "dev": None}


class Bare(nn.Module):
    """The language model in torch's own parts, with the weights of ours."""

    def __init__(self, ours):
        super().__init__()
        size, embedding = ours.embedder.weight.shape
        self.tied = ours.settings.tied
        self.embedding = nn.Embedding(size, embedding, padding_idx=0)
        self.lstm = nn.LSTM(embedding, ours.settings.hidden, ours.settings.layers)
        self.lstm.load_state_dict(ours.layers.state_dict())
        self.embedding.weight.data.copy_(ours.embedder.weight)
        self.project = nn.Linear(ours.settings.hidden, embedding, bias=False) if ours.project else nn.Identity()
        if ours.project:
            self.project.load_state_dict(ours.project.state_dict())
        self.output = nn.Linear(ours.output_weight.shape[1], size)
        self.output.weight.data.copy_(ours.output_weight)
        self.output.bias.data.copy_(ours.bias)
        if self.tied:
            self.output.weight = self.embedding.weight
        self.state = None

    def loss(self, batch, smoothing=0.0):
        x = self.embedding(batch.inputs)
        state = None if batch.reset else self.state
        x, (h, c) = self.lstm(x, state)
        self.state = h.detach(), c.detach()
        logits = self.output(self.project(x))
        return F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=0, label_smoothing=smoothing)


def prepare(settings):
    """What a run starts from."""
    lightning.seed_everything(settings.seed, verbose=False)
    assets, data = LanguageTask.prepare(settings)
    return LanguageTask.make_network(settings, assets), data


def bare_run(settings, make, rates=None):
    """Train without the engine: the loss of each step and the weights after the last."""
    ours, data = prepare(settings)
    bare = Bare(ours)
    optimizer = make(bare.parameters())
    losses, step = [], 0
    for epoch in range(settings.epochs):
        data.train.set_epoch(epoch)
        batches = list(data.train)
        while batches:
            part, batches = batches[: settings.accumulate], batches[settings.accumulate :]
            optimizer.zero_grad()
            if rates is not None:
                optimizer.param_groups[0]["lr"] = rates[step]
            total = 0.0
            for batch in part:
                loss = bare.loss(batch, settings.label_smoothing)
                (loss / settings.accumulate).backward()
                total += loss.item() * batch.tokens
            if settings.clip and settings.clip_by == "norm":
                nn.utils.clip_grad_norm_(bare.parameters(), settings.clip)
            elif settings.clip:
                nn.utils.clip_grad_value_(bare.parameters(), settings.clip)
            optimizer.step()
            losses.append(total / sum(batch.tokens for batch in part))
            step += 1
    return losses, bare


def same_run(tmp_path, make, rates=None, tolerance=1e-5, **given):
    settings = language(tmp_path, **{**PLAIN, **given})
    expected, bare = bare_run(settings, make, rates)
    run = fit(settings, tmp_path / "run")
    rows = [row for row in read_metrics(run.metrics) if "loss" in row]
    assert [row["step"] for row in rows] == list(range(1, len(expected) + 1))
    assert [row["loss"] for row in rows] == pytest.approx(expected, rel=tolerance)
    assert expected[-1] < expected[0]  # it does learn
    ours = load_file(run.weights)
    torch.testing.assert_close(ours["bias"], bare.output.bias.data, rtol=1e-3, atol=tolerance)
    torch.testing.assert_close(ours["embedder.weight"], bare.embedding.weight.data, rtol=1e-3, atol=tolerance)
    for name, weight in bare.lstm.state_dict().items():
        torch.testing.assert_close(ours[f"layers.{name}"], weight, rtol=1e-3, atol=tolerance)


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.3, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.9, 0.98)),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.002, momentum=0.3, weight_decay=0.01),
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=1.0),
}
GIVEN = {
    "sgd": {"lr": 0.3, "momentum": 0.9},
    "adam": {"lr": 0.01, "beta2": 0.98},
    "adamw": {"lr": 0.01, "weight_decay": 0.1},
    "rmsprop": {"lr": 0.002, "momentum": 0.3, "weight_decay": 0.01},
    "adadelta": {"lr": 1.0},
}


@pytest.mark.learning
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(tmp_path, name):
    same_run(tmp_path, OPTIMIZERS[name], optimizer=name, **GIVEN[name], tolerance=1e-4 if name == "rmsprop" else 1e-5)


SGD = {"optimizer": "sgd", "lr": 0.5}


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.5)


@pytest.mark.learning
@pytest.mark.parametrize(
    "given",
    [
        {"clip": 0.05},
        {"clip": 0.01, "clip_by": "value"},
        {"clip": 0},
        {"accumulate": 3, "batch_size": 3},
        {"accumulate": 4, "clip": 0.1},  # the last step of an epoch has fewer batches
        {"label_smoothing": 0.2},
        {"tied": False, "layers": 2},
        {"hidden": 5},
        {"layout": "running", "batch_size": 4},
        {"layout": "sentences", "batch_size": 4, "batch_tokens": None},
    ],
)
def test_steps(tmp_path, given):
    same_run(tmp_path, sgd, **SGD, **given)


STEPS = 12  # two epochs of six batches


@pytest.mark.learning
@pytest.mark.parametrize(
    "given, factor",
    [
        ({"schedule": "constant"}, lambda s: 1.0),
        ({"schedule": "linear"}, lambda s: 1 - s / STEPS),
        ({"schedule": "cosine"}, lambda s: 0.5 + 0.5 * math.cos(math.pi * s / STEPS)),
        ({"schedule": "step", "decay": 0.25}, lambda s: 1.0 if s < 6 else 0.25),
        ({"schedule": "step", "decay": 0.25, "decay_from": 2}, lambda s: 1.0),
        ({"schedule": "constant", "warmup": 0.25}, lambda s: min(1.0, (s + 1) / 4)),
        ({"schedule": "linear", "warmup": 0.25}, lambda s: (s + 1) / 4 if s < 3 else 1 - (s - 3) / 9),
    ],
)
def test_schedules(tmp_path, given, factor):
    """The rates that were used are those of the formula, since every step comes out the same."""
    same_run(tmp_path, sgd, [0.5 * factor(step) for step in range(STEPS)], **SGD, **given)


def test_the_gradient_in_the_log_is_its_norm_before_clipping(tmp_path):
    settings = language(tmp_path, **PLAIN, **SGD, clip=0.05)
    ours, data = prepare(settings)
    bare = Bare(ours)
    data.train.set_epoch(0)
    bare.loss(next(iter(data.train))).backward()
    norm = float(nn.utils.get_total_norm([p.grad for p in bare.parameters()]))
    rows = read_metrics(fit(settings, tmp_path / "run").metrics)
    assert rows[0]["gradient"] == pytest.approx(norm, rel=1e-5)
    assert norm > 0.05


def test_fewer_lines_of_log_are_the_means_of_more(tmp_path):
    every = read_metrics(fit(language(tmp_path, **PLAIN), tmp_path / "every").metrics)
    some = read_metrics(fit(language(tmp_path, **{**PLAIN, "log_steps": 4}), tmp_path / "some").metrics)
    assert [row["step"] for row in some] == [4, 6, 8, 12]
    lines = language(tmp_path)
    _, data = prepare(lines)
    weights = []
    for epoch in range(2):
        data.train.set_epoch(epoch)
        weights += [batch.tokens for batch in data.train]
    first = 0
    for row in some:
        last = int(row["step"])
        total = sum(w * r["loss"] for w, r in zip(weights[first:last], every[first:last], strict=True))
        assert row["loss"] == pytest.approx(total / sum(weights[first:last]), rel=1e-5)
        assert row["gradient"] == max(r["gradient"] for r in every[first:last])
        first = last


def test_the_seed_of_the_moment_does_not_matter(tmp_path):
    torch.manual_seed(1)
    first = fit(language(tmp_path), tmp_path / "a").weights.read_bytes()
    torch.manual_seed(2)
    assert fit(language(tmp_path), tmp_path / "b").weights.read_bytes() == first


def test_evaluating_changes_nothing_of_training(tmp_path):
    """With a dev set or without, the same steps: its state and its noise are its own."""
    for layout in ("lines", "running"):
        given = {"layout": layout, "dropout": 0.3, "log_steps": 1, "batch_size": 3}
        with_dev = fit(language(tmp_path, **given), tmp_path / f"with-{layout}")
        without = fit(language(tmp_path, **given, dev=None), tmp_path / f"without-{layout}")
        losses = [[row["loss"] for row in read_metrics(run.metrics) if "loss" in row] for run in (with_dev, without)]
        assert losses[0] == losses[1]
