"""The members of an ensemble in use, which needs no trainer."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from .network import Network, Trainable
from .run import Run


def load_members(run: Run, task: type[Trainable], settings: Any, assets: Any) -> Network:
    """The networks of an ensemble, with the weights of the best epoch of each, as one."""
    members = []
    for number in range(1, settings.seeds + 1):
        network = task.make_network(settings, assets)
        run.member(number).load_weights(network)
        members.append(network.eval())
    return task.make_ensemble(members).eval()


def mean_and_deviation(values: Sequence[float]) -> dict[str, float]:
    """
    >>> mean_and_deviation([1.0, 2.0, 3.0])
    {'mean': 2.0, 'sd': 1.0}
    """
    return {"mean": statistics.mean(values), "sd": statistics.stdev(values)}
