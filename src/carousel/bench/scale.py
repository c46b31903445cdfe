"""How training scales over processes and hosts: `carousel bench scale`.

The trainer trains the language models of `bench lm` on one batch over and over, in processes of its own: with one
thread, with all, and by two processes with half of the threads each. What they exchange in a step is counted and timed.
Hosts that are not here follow by a model: with n hosts and b sequences on each, a step takes

    compute(b) + 2 (n − 1) / n · bytes / rate + messages · 2 (n − 1) · latency

which is a ring all-reduce (gloo's) that nothing hides; compute is a straight line through measured batch sizes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from ..data import Vocabulary
from ..errors import CarouselError
from ..files import replace_text_file
from ..tasks.lm.data import LanguageAssets
from ..tasks.lm.task import LanguageTask
from ..training import Data, distributed
from .lm import SIZES, Clock, Repeated, make_batch, make_network, typical

HOSTS = (2, 4, 16, 64)
NETWORK = 10e9 / 8  # bytes per second
BESIDE = 2  # small all-reduces of a step beside the gradients': of the loss, and of which parameters were used
PARTS = (0.25, 0.5, 1.0, 2.0)  # of the batch size, where the time of a step is measured


class Cost(NamedTuple):
    """What a step costs: seconds per step and per sequence, bytes and messages exchanged, and how fast."""

    step: float
    sequence: float
    bytes: int
    messages: int
    rate: float  # bytes per second
    latency: float  # seconds

    def compute(self, sequences: float) -> float:
        return self.step + self.sequence * sequences

    def exchange(self, hosts: int) -> float:
        """Seconds of the all-reduces of a step.

        >>> Cost(0.01, 0.001, 10_000_000, 3, 1e9, 1e-4).exchange(2)
        0.0106
        """
        return 2 * (hosts - 1) * (self.bytes / hosts / self.rate + self.messages * self.latency)

    def speed(self, hosts: int, batch: float) -> float:
        """Sequences per second with a `batch` that all hosts share."""
        return batch / (self.compute(batch / hosts) + self.exchange(hosts))

    def pays_from(self, hosts: int) -> float:
        """The batch size at which that number of hosts is as fast as one; with a smaller one they are slower.

        >>> cost = Cost(0.01, 0.001, 10_000_000, 3, 1e9, 1e-4)
        >>> round(cost.pays_from(4), 1), round(cost.speed(4, 22.4) - cost.speed(1, 22.4), 9)
        (22.4, 0.0)
        """
        return self.exchange(hosts) * hosts / (hosts - 1) / self.sequence

    def half_from(self, hosts: int) -> float:
        """The batch size at which n hosts are n/2 times as fast as one."""
        return (self.step * (hosts - 2) + self.exchange(hosts) * hosts) / self.sequence


class _Shared(Repeated):
    """The same batch again and again, which processes share."""

    def share(self, rank: int, size: int) -> Self:
        own = {name: getattr(self.batch, name)[..., rank::size] for name in ("inputs", "targets", "lengths", "rows")}
        batch = replace(self.batch, **own, tokens=own["inputs"].numel())
        return type(self)((batch, True), self.count)  # type: ignore[arg-type]


class _Counted(Clock):
    """Records when each step began and how much was exchanged; when training ends, how long that takes by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.exchanged: list[int] = []  # bytes of each bucket of gradients
        self.alone = self.latency = 0.0

    def on_train_start(self, trainer: Any, module: Any) -> None:
        if distributed.size() > 1:
            trainer.strategy.model.register_comm_hook(None, lambda state, bucket: self._exchange(bucket))

    def _exchange(self, bucket: Any) -> Any:
        self.exchanged.append(bucket.buffer().nbytes)
        return allreduce_hook(dist.group.WORLD, bucket)  # type: ignore[arg-type]

    def on_train_end(self, trainer: Any, module: Any) -> None:
        if distributed.size() > 1:
            steps = len(self.begun)
            sizes = self.exchanged[-round(len(self.exchanged) / steps) :]
            self.exchanged = sizes  # of the last step: the first ones group the parameters in another way
            self.alone = sum(all_reduce_time(size) for size in sizes)
            self.latency = all_reduce_time(8) / 2  # two messages, one after the other


def all_reduce_time(size: int, rounds: int = 50) -> float:
    """Seconds that the all-reduce of `size` bytes takes among the processes, the best of several."""
    numbers, times = torch.zeros(size // 4), []
    for _ in range(rounds):
        dist.barrier()
        begun = time.perf_counter()
        dist.all_reduce(numbers)
        times.append(time.perf_counter() - begun)
    return min(times)


def work(size: dict[str, Any], steps: int) -> dict[str, Any]:
    """Train with these processes and threads; seconds per step by batch size, and what was exchanged."""
    from ..training.several import train

    seconds, settings = {}, make_network(size).settings.model_copy(update={"epochs": 1, "log_steps": 10})
    for batch in size["batches"]:
        clock, whole = _Counted(), make_batch({**size, "batch": batch})

        class Timed(LanguageTask):
            @classmethod
            def prepare(cls, settings: Any, assets: Any = None, whole: Any = whole) -> tuple[LanguageAssets, Data]:
                words = Vocabulary.from_tokens([f"w{k}" for k in range(size["vocabulary"] - 4)], "word")
                return LanguageAssets(words), Data(_Shared(whole, steps), None)

        with tempfile.TemporaryDirectory() as folder:
            train(Timed, settings, Path(folder) / "run", callbacks=[clock], quiet=True, report=False)
        seconds[batch] = typical(clock.begun)
    return {"seconds": seconds, "sizes": clock.exchanged, "alone": clock.alone, "latency": clock.latency}


def line(batches: list[float], seconds: list[float]) -> tuple[float, float]:
    """Seconds per step and per sequence that fit best, neither negative.

    >>> [round(number, 6) for number in line([10, 20, 40], [0.03, 0.05, 0.09])]
    [0.01, 0.002]
    """
    slope, intercept = np.polyfit(batches, seconds, 1)
    if slope > 0 and intercept >= 0:
        return float(intercept), float(slope)
    return 0.0, float(np.dot(batches, seconds) / np.dot(batches, batches))


def launch(size: dict[str, Any], steps: int, processes: int, threads: int) -> dict[str, Any]:
    """`work` by processes of their own."""
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder, "result.json")
        own = [sys.executable, "-m", "carousel.bench.scale", json.dumps(size), str(steps), str(to)]
        torchrun = [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python", "--nproc-per-node",
            str(processes),
        ]  # fmt: skip
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TORCH_CPP_LOG_LEVEL": "ERROR"}
        ended = subprocess.run([*torchrun, *own], env=environment, capture_output=True, text=True)
        if ended.returncode:
            lines = [line for line in ended.stderr.splitlines() if "rror" in line]
            raise CarouselError(
                f"bench scale: {processes} processes stopped: {lines[0] if lines else ended.returncode}"
            )
        result: dict[str, Any] = json.loads(to.read_text())
    return result


def measure(size: dict[str, Any], steps: int, threads: int, rounds: int) -> dict[str, Any]:
    """One model: tokens per second with each division of the threads, the exchange, and the hosts that follow."""
    batch = size["batch"]
    batches = sorted({max(2, round(part * batch)) for part in PARTS})
    ways = {"one": (1, 1, [batch // 2, batch]), "all": (1, threads, batches), "two": (2, threads // 2, [batch])}
    best: dict[str, dict[str, float]] = {name: {} for name in ways}
    both: dict[str, Any] = {"alone": float("inf")}
    for _ in range(rounds):
        for name, (processes, each, sizes) in ways.items():
            result = launch({**size, "batches": sizes}, steps, processes, max(1, each))
            for key, seconds in result["seconds"].items():
                best[name][key] = min(seconds, best[name].get(key, seconds))
            if name == "two" and result["alone"] < both["alone"]:
                both = result
    step, sequence = line([float(key) for key in best["all"]], list(best["all"].values()))
    exchanged, time = sum(both["sizes"]), both["alone"] - 2 * len(both["sizes"]) * both["latency"]
    local = exchanged / max(1e-9, time)  # at n = 2, each process sends as many bytes as there are
    messages = len(both["sizes"]) + BESIDE
    cost = Cost(step, sequence, exchanged, messages, min(NETWORK, local), both["latency"])
    tokens = size["steps"]
    rates = {name: tokens * batch / best[name][str(batch)] for name in ways}
    expected = best["one"][str(batch // 2)] + both["alone"] + BESIDE * 2 * both["latency"]
    return {
        "tokens per second": rates,
        "seconds per step": best,
        "expected of two": tokens * batch / expected,
        "exchange": {"bytes": exchanged, "buckets": len(both["sizes"]), "seconds": both["alone"], "rate": local,
                     "latency": both["latency"]},
        "hosts": [_row(cost, n, batch, tokens) for n in HOSTS],
    }  # fmt: skip


def _row(cost: Cost, hosts: int, batch: int, tokens: int) -> dict[str, Any]:
    """What the given number of hosts reaches with `batch` sequences on each, and from which batch size on they pay."""
    speed = cost.speed(hosts, hosts * batch)
    return {
        "hosts": hosts,
        "exchange": cost.exchange(hosts),
        "tokens per second": speed * tokens,
        "efficiency": speed / hosts / cost.speed(1, batch),
        "pays from": cost.pays_from(hosts),
        "half from": cost.half_from(hosts),
    }


def main(out: Path, steps: int = 24, rounds: int = 2, sizes: dict[str, dict[str, Any]] = SIZES) -> dict[str, Any]:
    """Measure, print the tables, write scale.json."""
    from rich.console import Console

    threads, console = os.cpu_count() or 2, Console(highlight=False)
    with replace_text_file(out / "scale.json") as to:
        models = {name: measure(size, steps, threads, rounds) for name, size in sizes.items()}
        result = {"threads": threads, "models": models}
        to.write(json.dumps(result, indent=1))
    for name, model in models.items():
        _print(console.print, name, model, threads, sizes[name]["batch"])
    return result


def _print(say: Callable[..., None], name: str, model: dict[str, Any], threads: int, batch: int) -> None:
    from rich.table import Table

    rates, found = model["tokens per second"], model["exchange"]
    say(f"{name}, batches of {batch} sequences; tokens/s:")
    for way, words in (("one", "one process, one thread"), ("all", f"one process, {threads} threads"),
                       ("two", f"two processes, {max(1, threads // 2)} each")):  # fmt: skip
        say(f"  {words:26} {rates[way]:9,.0f}  {rates[way] / rates['one']:.2f} of one thread")
    say(f"  two, by the model          {model['expected of two']:9,.0f}")
    say(f"all-reduce of a step: {found['bytes'] / 1e6:.2f} MB in {found['buckets']} parts, "
        f"{1e3 * found['seconds']:.2f} ms between two processes here ({found['rate'] * 8e-9:.1f} Gb/s), "
        f"{1e6 * found['latency']:.0f} µs per message")  # fmt: skip
    table = Table(title=f"{name}: hosts of {threads} threads on 10 Gb/s, by the model; {batch} sequences per host")
    for column in ("hosts", "all-reduce ms", "tokens/s", "efficiency", "pays from batch", "half efficient from"):
        table.add_column(column, justify="right")
    for row in model["hosts"]:
        table.add_row(
            str(row["hosts"]), f"{1e3 * row['exchange']:.1f}", f"{row['tokens per second']:,.0f}",
            f"{row['efficiency']:.0%}", f"{row['pays from']:,.0f}", f"{row['half from']:,.0f}",
        )  # fmt: skip
    say(table)


if __name__ == "__main__":
    found = work(json.loads(sys.argv[1]), int(sys.argv[2]))
    if int(os.environ["RANK"]) == 0:
        Path(sys.argv[3]).write_text(json.dumps(found))
