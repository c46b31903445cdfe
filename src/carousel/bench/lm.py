"""Language models against the same in plain PyTorch: `carousel bench lm`.

Training is measured in whole steps (forward, backward, clipping, optimizer), generation in whole texts, both on random
tokens, since speed does not depend on what they say. The plain side is what a tutorial has: `nn.Embedding`, `nn.LSTM`,
`nn.Linear`, `F.cross_entropy`, and an optimizer with torch's defaults.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from lightning.pytorch import Callback
from torch import Tensor, nn

from ..data import TextBatch, Vocabulary
from ..errors import CarouselError
from ..ops import backend
from ..tasks.lm.data import LanguageAssets
from ..tasks.lm.network import LanguageNetwork
from ..tasks.lm.settings import LanguageSettings
from ..tasks.lm.task import LanguageTask
from ..training import Data
from ..training.optimizers import clip_norm, make_optimizer
from .claims import measured, print_claims
from .layers import race

SIZES: dict[str, dict[str, Any]] = {
    # the poem model: 128 lines of 48 characters and [END]
    "poems": {"steps": 49, "batch": 128, "vocabulary": 2844, "embedding": 256, "hidden": 128, "layers": 1, "lr": 0.01,
              "optimizer": "adam", "least": 1.9},
    # Zaremba's small model of the Penn Treebank
    "PTB small": {"steps": 35, "batch": 20, "vocabulary": 10_000, "embedding": 200, "hidden": 200, "layers": 2,
                  "lr": 1.0, "optimizer": "sgd", "least": 1.4},
}  # fmt: skip


class Plain(nn.Module):
    """A language model as in a tutorial."""

    def __init__(self, vocabulary: int, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding, padding_idx=0)
        self.layers = nn.LSTM(embedding, hidden, layers)
        self.output = nn.Linear(hidden, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(self.layers(self.embedding(tokens))[0])


def make_batch(size: dict[str, Any], seed: int = 0) -> TextBatch:
    draw = torch.Generator().manual_seed(seed)
    shape = size["steps"], size["batch"]
    inputs, targets = (torch.randint(4, size["vocabulary"], shape, generator=draw) for _ in range(2))
    return TextBatch(inputs, targets, torch.full((shape[1],), shape[0]), torch.arange(shape[1]), shape[0] * shape[1])


def make_network(size: dict[str, Any]) -> LanguageNetwork:
    """The same network as `Plain`."""
    vocabulary = Vocabulary.from_tokens([f"w{k}" for k in range(size["vocabulary"] - 4)], "word")
    keys = ("embedding", "hidden", "layers", "lr", "optimizer")
    settings = LanguageSettings(train=Path("text"), tied=False, dropout=0, **{name: size[name] for name in keys})
    return LanguageNetwork(settings, LanguageAssets(vocabulary))


def plain_step(size: dict[str, Any], batch: TextBatch) -> Callable[[], None]:
    model = Plain(size["vocabulary"], size["embedding"], size["hidden"], size["layers"])
    make = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[size["optimizer"]]
    optimizer = make(model.parameters(), lr=size["lr"])

    def step() -> None:
        logits = model(batch.inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()

    return step


def our_step(size: dict[str, Any], batch: TextBatch) -> Callable[[], None]:
    """A bare loop's step with our parts."""
    network = make_network(size)
    optimizer = make_optimizer(network.settings, network.parameters())

    def step() -> None:
        loss = network.loss(batch).mean
        optimizer.zero_grad()
        loss.backward()
        clip_norm(network.parameters(), 5.0)
        optimizer.step()

    return step


def training(seconds: float) -> list[dict[str, Any]]:
    """Training steps, side by side."""
    rows = []
    for name, size in SIZES.items():
        torch.manual_seed(0)
        batch = make_batch(size)
        times = race({"torch": plain_step(size, batch), "carousel": our_step(size, batch)}, seconds)
        rates = {side: batch.tokens / t for side, t in times.items()}
        rows.append({"model": name, **rates, "ratio": times["torch"] / times["carousel"], "least": size["least"]})
    return rows


class Repeated:
    """The same batch again and again, as batches."""

    def __init__(self, batch: TextBatch, count: int) -> None:
        self.batch, self.count = batch, count

    def __iter__(self) -> Iterator[TextBatch]:
        return iter([self.batch] * self.count)

    def __len__(self) -> int:
        return self.count

    def set_epoch(self, epoch: int) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class _Timed(LanguageTask):
    """The poem model, on one batch over and over."""

    @classmethod
    def prepare(cls, settings: Any, assets: Any = None) -> tuple[LanguageAssets, Data]:
        words = Vocabulary.from_tokens([f"w{k}" for k in range(SIZES["poems"]["vocabulary"] - 4)], "word")
        return LanguageAssets(words), Data(Repeated(make_batch(SIZES["poems"]), 24), None)


class Clock(Callback):
    """Records when each step began."""

    def __init__(self) -> None:
        self.begun: list[float] = []

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, index: int) -> None:
        self.begun.append(time.perf_counter())


def engine(rounds: int = 3) -> dict[str, float]:
    """A step of the poem model in the engine, beside the same step in a bare loop."""
    from ..training.trainer import train

    size = SIZES["poems"]
    best = {"engine": float("inf"), "bare": float("inf")}
    settings = make_network(size).settings.model_copy(update={"epochs": 1, "log_steps": 10})
    for _ in range(rounds):
        torch.manual_seed(0)
        step = our_step(size, make_batch(size))
        times = []
        for _ in range(24):
            times.append(time.perf_counter())
            step()
        best["bare"] = min(best["bare"], typical(times))
        clock = Clock()
        with tempfile.TemporaryDirectory() as folder:
            train(_Timed, settings, Path(folder) / "run", callbacks=[clock], quiet=True, report=False)
        best["engine"] = min(best["engine"], typical(clock.begun))
    return {**best, "overhead": best["engine"] / best["bare"] - 1}


def typical(begun: list[float]) -> float:
    """The median time from the beginning of a step to the next; the first few warm up."""
    gaps = sorted(b - a for a, b in pairwise(begun[4:]))
    return gaps[len(gaps) // 2]


def main(out: Path, seconds: float = 5.0) -> dict[str, Any]:
    """Measure, print the table, write lm.json."""
    from rich.console import Console
    from rich.table import Table

    from .generation import compare_generation

    if not backend.available():
        raise CarouselError(f"bench lm: {backend.why_not()}")
    console = Console()

    def measure() -> dict[str, Any]:
        return {
            "training": training(seconds),
            "engine": engine(),
            "generation": compare_generation(seconds=2 * seconds),
        }

    result = measured(out / "lm.json", measure, claims)
    table = Table(title="language models against plain PyTorch, 2 threads")
    for column in ("", "plain", "carousel", "ratio"):
        table.add_column(column, justify="left" if not column else "right")
    for row in result["training"]:
        rates = [f"{row[side]:,.0f}" for side in ("torch", "carousel")]
        table.add_row(f"training {row['model']}, tokens/s", *rates, f"{row['ratio']:.2f}")
    for row in result["generation"]:
        rates = [f"{row['poems'] / row[side]:,.1f}" for side in ("torch", "carousel")]
        table.add_row(f"generating, batch {row['batch']}, poems/s", *rates, f"{row['ratio']:.2f}")
    console.print(table)
    print_claims(console, result["claims"])
    return result


def claims(result: dict[str, Any]) -> list[dict[str, Any]]:
    """What the project holds itself to, and what was found."""
    rows = [(f"training {r['model']}, ratio", r["ratio"], r["least"], True) for r in result["training"]]
    rows += [(f"generating, batch {r['batch']}, ratio", r["ratio"], r["least"], True) for r in result["generation"]]
    rows += [("engine over a bare loop, share of a step", result["engine"]["overhead"], 0.05, False)]
    return [
        {
            "what": what,
            "found": value,
            "must": f"{'≥' if least else '≤'} {bound:g}",
            "holds": value >= bound if least else value <= bound,
        }
        for what, value, bound, least in rows
    ]
