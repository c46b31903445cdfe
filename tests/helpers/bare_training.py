"""Training of the language model without the engine, in torch's own parts."""

from unittest.mock import patch

import lightning.pytorch as lightning
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

from carousel.tasks.lm import network
from carousel.tasks.lm.task import LanguageTask
from carousel.training.csv_logger import read_metrics
from helpers.tiny import fit, language

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
        self.first = None if ours.settings.layout == "lines" else ours.settings.first_token

    def loss(self, batch, smoothing=0.0):
        inputs, state = batch.inputs, None if batch.reset else self.state
        if state is None and self.first is not None:  # all streams of running text begin so
            inputs = torch.cat((torch.full_like(inputs[:1], self.first), inputs[1:]))
        x = self.embedding(inputs)
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
    with patch.object(network, "RESTARTS", 0.0):  # drawn at random
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


SGD = {"optimizer": "sgd", "lr": 0.5}


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.5)
