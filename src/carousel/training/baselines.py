"""Baselines: what simple methods reach on the same data, beside the model's own result."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..errors import ArgumentError, SettingsError
from ..threads import threads
from ..wording import label_of, setting
from .data import Data
from .isolation import own_random_numbers
from .network import Metric, Trainable

LIBRARIES = {"sklearn": "scikit-learn", "pycrfsuite": "python-crfsuite"}  # modules and their packages
EXTRA = "pip install 'carousel-rnn[baselines]'"


class Baseline(NamedTuple):
    """What one method reached on the dev set, and how long it took to fit and measure."""

    name: str
    value: float
    seconds: float


@dataclass
class Baselines:
    """The baselines of a data set, measured by the metric that selects the model's best epoch; `print` shows them."""

    metric: str
    lower_is_better: bool
    results: list[Baseline] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what was left out, and why

    @property
    def best(self) -> Baseline | None:
        """The best of them; None if there are none."""
        sign = 1 if self.lower_is_better else -1
        measured = [result for result in self.results if not math.isnan(result.value)]
        return min(measured, key=lambda result: sign * result.value, default=None)

    def beaten_by(self, value: float | None) -> bool | None:
        """Whether a model's `value` is better than all of them; None if there is nothing to compare."""
        best = self.best
        if best is None or value is None:
            return None
        return value < best.value if self.lower_is_better else value > best.value

    def verdict(self, value: float | None) -> str:
        """A sentence that compares a model's `value` with the best of them; empty if there is nothing to compare."""
        beaten, best = self.beaten_by(value), self.best
        if beaten is None or best is None:
            return ""
        own, other = f"{value:.4g}", f"{best.value:.4g}"
        relation = "no better than" if own == other else "better than" if beaten else "worse than"
        return f"dev {label_of(self.metric)} {own} is {relation} the baseline {best.name}, {other}"

    def as_dict(self) -> dict[str, Any]:
        """In JSON's terms, as in result.json."""
        return {
            "metric": self.metric,
            "lower_is_better": self.lower_is_better,
            "results": [result._asdict() for result in self.results],
            "notes": self.notes,
        }

    def rows(self) -> list[list[str]]:
        """A table: name, value, seconds."""
        return [[one.name, f"{one.value:.4g}", f"{one.seconds:.1f}"] for one in self.results]

    def __str__(self) -> str:
        cells = [["baseline", f"dev {label_of(self.metric)}", "seconds"], *self.rows()]
        name, value, seconds = (max(map(len, column)) for column in zip(*cells, strict=True))
        return "\n".join([*(f"{a:{name}}  {b:>{value}}  {c:>{seconds}}" for a, b, c in cells), *self.notes])


def fit_baselines(
    task: type[Trainable],
    settings: Any,
    assets: Any,
    data: Data,
    metric: Metric,
    each: Callable[[Baseline], None] = lambda result: None,
) -> Baselines:
    """Fit the baselines of `task` to the training data and measure them on the dev set; `each` is called with every
    result. Without a dev set there are none.

    They draw no random numbers of the run's, and read its data without moving its place in them.
    """
    baselines = Baselines(metric.best, metric.lower_is_better)
    if data.dev is None:
        return baselines
    missing: dict[str, str] = {}  # baselines left out, each with the package that it needs
    with own_random_numbers():
        for name, measure in task.baselines(settings, assets, data).items():
            start = time.perf_counter()
            try:
                value = measure()
            except ImportError as error:
                if error.name is None or error.name.partition(".")[0] not in LIBRARIES:
                    raise
                missing[name] = LIBRARIES[error.name.partition(".")[0]]
                continue
            baselines.results.append(Baseline(name, value, round(time.perf_counter() - start, 2)))
            each(baselines.results[-1])
    if missing:
        needed = " and ".join(dict.fromkeys(missing.values()))
        baselines.notes.append(f"baselines: {', '.join(missing)} needs {needed}: {EXTRA}")
    return baselines


def suggestions(settings: Any, result: Mapping[str, Any]) -> list[str]:
    """What to try for a model that is no better than its baseline: what its settings and its best epoch point to."""
    fields = type(settings).model_fields
    tips = []
    best = max(one["best_epoch"] for one in result.get("members", [result]))
    if result.get("network_is_idle"):  # what it learns makes no difference
        pass
    elif best >= result["epochs"]:
        tips.append(f"more {setting('epochs')} (of {result['epochs']} the last was the best)")
    elif best == 1:
        tips.append(f"another {setting('lr')} (epoch 1 of {result['epochs']} was the best)")
    elif 2 * best <= result["epochs"]:
        tips.append(f"more {setting('dropout')} or a smaller model (epoch {best} of {result['epochs']} was the best)")
    if settings.schedule == "constant" and not result.get("network_is_idle"):
        tips.append(setting("schedule", "cosine"))
    if "vectors" in fields and settings.vectors is None:
        tips.append(f"pre-trained word vectors ({setting('vectors')})")
    if "lower" in fields and not settings.lower:
        tips.append(f"lower-casing ({setting('lower', True)})")
    enough = len(tips) > 1 or best == 1 or result.get("network_is_idle")
    return [*tips, "more training data" if enough else f"another {setting('lr')}"]


def measure_baselines(task: type[Trainable], settings: Any) -> Baselines:
    """The baselines of the data that `settings` name, without a model."""
    with threads(settings.threads), own_random_numbers(settings.seed):
        assets, data = task.prepare(settings)
        if data.dev is None:
            raise SettingsError(f"{setting('dev')}: there is nothing to measure baselines on; give validation data")
        baselines = fit_baselines(task, settings, assets, data, task.make_network(settings, assets).metric())
    if not baselines.results and not baselines.notes:
        raise ArgumentError(f"{task.name}: this task has no baselines")
    if "held out" in data.info and settings.dev is None:
        baselines.notes.append(f"measured on what is held out: {data.info['held out']}")
    return baselines
