"""Optimizers, clipping and schedules, against loops written out."""

import math

import pytest
import torch
from helpers.bare_training import PLAIN, SGD, Bare, prepare, same_run, sgd
from helpers.tiny import fit, language
from torch import nn

from carousel.training.csv_logger import read_metrics
from carousel.training.optimizers import clip_norm

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


@pytest.mark.parametrize("limit", [0.5, 5.0, math.inf])
def test_clipping_is_torchs(limit):
    ours, theirs = ([nn.Parameter(torch.zeros(n)) for n in (3, 4, 1)] for _ in range(2))
    for k, (one, other) in enumerate(zip(ours[:2], theirs[:2], strict=True)):  # the last has no gradient
        one.grad = torch.randn(len(one), generator=torch.Generator().manual_seed(k))
        other.grad = one.grad.clone()
    assert clip_norm(ours, limit) == pytest.approx(float(nn.utils.clip_grad_norm_(theirs, limit)))
    for one, other in zip(ours[:2], theirs[:2], strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_gradients_that_are_no_numbers_stay():
    weight = nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3.0, math.inf])
    assert clip_norm([weight], 1.0) == math.inf
    assert weight.grad.tolist() == [3.0, math.inf]
    assert clip_norm([], 1.0) == 0
