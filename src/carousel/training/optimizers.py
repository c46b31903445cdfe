"""Optimizers and schedules by name."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, ReduceLROnPlateau

from ..ops.norm import total_norm
from .settings import Settings


def make_optimizer(settings: Settings, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer that `settings` name. Those that torch has in one fused CPU kernel use it."""
    s = settings
    common: dict[str, Any] = {"lr": s.lr, "weight_decay": s.weight_decay}
    match s.optimizer:
        case "sgd":
            return torch.optim.SGD(parameters, momentum=s.momentum, fused=True, **common)
        case "adam":
            return torch.optim.Adam(parameters, betas=(0.9, s.beta2), fused=True, **common)
        case "adamw":
            return torch.optim.AdamW(parameters, betas=(0.9, s.beta2), fused=True, **common)
        case "rmsprop":
            return torch.optim.RMSprop(parameters, momentum=s.momentum, **common)
        case "adadelta":
            return torch.optim.Adadelta(parameters, **common)


def clip_norm(parameters: Iterable[nn.Parameter], limit: float) -> float:
    """The norm of all gradients together; if it is above `limit`, they are scaled down to it in place.

    As `nn.utils.clip_grad_norm_`, without a pass over gradients that are small enough (`math.inf`: all are). Where the
    norm is not a number, they stay as they are.

    >>> weight = nn.Parameter(torch.zeros(2))
    >>> weight.grad = torch.tensor([3.0, 4.0])
    >>> clip_norm([weight], 1.0)
    5.0
    >>> weight.grad
    tensor([0.6000, 0.8000])
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = total_norm(gradients)
    if limit < norm < math.inf:
        torch._foreach_mul_(gradients, limit / norm)
    return norm


def make_schedule(
    settings: Settings, optimizer: torch.optim.Optimizer, steps: int, steps_per_epoch: int, lower_is_better: bool
) -> LRScheduler | ReduceLROnPlateau:
    """The learning rate as a function of the step (or, for plateau, of the dev metric)."""
    s = settings
    if s.schedule == "plateau":
        return ReduceLROnPlateau(
            optimizer, "min" if lower_is_better else "max", factor=s.decay, patience=0, threshold=0.0
        )
    rising = round(s.warmup * steps)

    def factor(step: int) -> float:
        if step < rising:
            return (step + 1) / (rising + 1)
        done = (step - rising) / max(1, steps - rising)
        match s.schedule:
            case "linear":
                return max(0.0, 1 - done)
            case "cosine":
                return (1 + math.cos(math.pi * min(1.0, done))) / 2
            case "step":
                return s.decay ** max(0, step // steps_per_epoch - s.decay_from + 1)
        return 1.0

    return LambdaLR(optimizer, factor)
