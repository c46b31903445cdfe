"""Ensembles: networks that differ by their seeds as one network, which averages what they predict."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ...training import Network
from ...training.members import mean_and_deviation

F = TypeVar("F", bound=Callable[..., dict[str, Any]])


class Ensemble(Network):
    """Several networks as one. A task's ensemble is also a subclass of the task's network, whose methods it has, and
    says how predictions are averaged; every attribute that it does not have is that of the first member."""

    members: Any  # a ModuleList of networks of the task's own class

    def __init__(self, members: Sequence[Network]) -> None:
        nn.Module.__init__(self)  # not that of the task's network: it has no parameters of its own
        self.members = nn.ModuleList(members)
        self.settings = members[0].settings

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            members: Any = super().__getattr__("members")
            return getattr(members[0], name)


def mean_log_prob(scores: Sequence[Tensor]) -> Tensor:
    """Scores of classes (..., classes) by several networks, not normalised → the logarithm of the mean probability.

    >>> both = mean_log_prob([torch.tensor([0.5, 0.5]).log(), torch.tensor([0.1, 0.9]).log()])
    >>> [round(p, 4) for p in both.exp().tolist()]
    [0.3, 0.7]
    """
    return torch.stack([one.log_softmax(-1) for one in scores]).logsumexp(0) - math.log(len(scores))


def with_members(evaluate: F) -> F:
    """`Model.evaluate` whose result, of an ensemble, also has the mean and the standard deviation of its members'."""

    @functools.wraps(evaluate)
    def run(model: Any, *files: Any, **options: Any) -> dict[str, Any]:
        result = evaluate(model, *files, **options)
        each = [evaluate(member, *files, **options) for member in model.members]
        if not each:
            return result
        numbers = [name for name, value in result.items() if isinstance(value, float)]
        table = {name: mean_and_deviation([one[name] for one in each]) for name in numbers}
        return {**result, "members": table}

    return run  # type: ignore[return-value]
