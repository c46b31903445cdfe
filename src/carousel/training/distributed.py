"""Training by several processes, on one host or many: those that torchrun started.

Each process reads its part of every batch, and gradients are weighted so that a step is the one that a single process
would take with the whole batch. Rank 0 owns the run directory. The others work in a directory of their own, which is
deleted at the end; when a run is resumed it begins as a copy of what rank 0 has, so hosts need not share files.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from ..errors import ArgumentError, RunError
from .data import Batches
from .network import Metric, Network

TIMEOUT = timedelta(seconds=50)  # without an answer in a step: longer than a connection may fail and recover
ANSWER = 5.0  # seconds for the store to answer
PATIENCE = timedelta(hours=2)  # for processes that are still preparing data
SKIPPED = ("tensorboard", "report.html", "data", "members")  # what a copy of a run does not need
LOST = ("gloo", "connection", "timed out", "timeout", "nccl", "broken pipe", "socket")

T = TypeVar("T")

_store: Any = None  # of the group, while it is joined
_number = count()  # of groups that this process has joined: each has keys of its own in torchrun's store


def rank() -> int:
    """The number of this process among those that train together, from 0."""
    return dist.get_rank() if _joined() else 0


def size() -> int:
    """How many processes train together."""
    return dist.get_world_size() if _joined() else 1


def _joined() -> bool:
    return _store is not None


@contextmanager
def joined(out: Path, resume: bool) -> Iterator[Path]:
    """Join the processes that torchrun started, if it did. Gives the run directory of this process."""
    global _store
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or _joined():
        yield out
        return
    common, own, processes = next(rendezvous("env://", timeout=PATIENCE))
    store = PrefixStore(f"carousel-{next(_number)}", common)
    dist.init_process_group("gloo", store=store, rank=own, world_size=processes, timeout=TIMEOUT)
    _store = PrefixStore("progress", store)
    try:
        with _place(out, resume) as folder:
            yield folder
            ready("finished")
    except Exception as error:
        message, store = f"process {own}: {error}", _store
        _bounded(lambda: store.set("failed", message))
        raise
    finally:
        _store = None
        dist.destroy_process_group()


@contextmanager
def _place(out: Path, resume: bool) -> Iterator[Path]:
    """`out` for rank 0; for the others a directory with the same files, if the run is resumed."""
    files = [_files_of(out) if resume and rank() == 0 else {}]
    dist.broadcast_object_list(files)
    if rank() == 0:
        yield out
        return
    with tempfile.TemporaryDirectory(prefix="carousel-") as folder:
        for name, data in files[0].items():
            path = Path(folder, "run", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        yield Path(folder, "run")


def _files_of(folder: Path) -> dict[str, bytes]:
    """The files of a run that training needs, by their names in it."""
    if not folder.is_dir():
        return {}
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path): (folder / path).read_bytes() for path in paths if path.parts[0] not in SKIPPED}


def ready(what: str) -> None:
    """Wait until every process has come this far; raises if one has failed."""
    if not _joined():
        return
    _store.set(f"{what}/{rank()}", "")
    keys, end = [f"{what}/{k}" for k in range(size())], time.monotonic() + PATIENCE.total_seconds()
    while not _store.check(keys):
        if reason := _failure():
            raise RunError(reason)
        if time.monotonic() > end:
            raise RunError(f"after {PATIENCE} some processes are not ready ({what}); check the other hosts")
        time.sleep(0.1)


def _failure() -> str:
    """Why another process has stopped, as far as it could say so."""
    store = _store
    answer = _bounded(lambda: store.get("failed").decode() if store.check(["failed"]) else "")
    if answer is None:  # the process that keeps the store is gone
        return "stopped: contact with process 0 was lost"
    return f"stopped: {answer}" if answer else ""


def _bounded(ask: Callable[[], T]) -> T | None:
    """The store's answer; None if there is none in time. Where the network fails, the store itself waits for ever."""
    answers: list[T] = []

    def work() -> None:
        with suppress(Exception):
            answers.append(ask())

    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(ANSWER)
    return answers[0] if answers else None


@contextmanager
def contact(remedy: str) -> Iterator[None]:
    """Errors of the connection to other processes, in one line that ends with `remedy`."""
    try:
        yield
    except RuntimeError as error:
        if not _joined() or not any(word in str(error).lower() for word in LOST):
            raise
        reason = _failure() or "contact with another process was lost: it was stopped, or the network failed"
        raise RunError(f"{reason}; {remedy}") from error


def share(batches: Any) -> Batches:
    """This process's part of the training batches."""
    if size() == 1:
        return batches
    if not hasattr(batches, "share"):
        raise ArgumentError(f"{type(batches).__name__} has no method `share`, so one process alone can train on it")
    return batches.share(rank(), size())


def total(numbers: list[float]) -> list[float]:
    """Numbers added over all processes."""
    if size() == 1:
        return numbers
    sums = torch.tensor(numbers, dtype=torch.float64)
    dist.all_reduce(sums)
    return sums.tolist()


def gather(value: Any) -> list[Any]:
    """What each process has, by rank, in every process."""
    values: list[Any] = [None] * size()
    dist.all_gather_object(values, value)
    return values


def merge(metric: Metric, network: Network) -> Metric:
    """The metric of all processes, of which each has added a part of the data."""
    if size() == 1:
        return metric
    whole = network.metric()
    for state in gather({name: part for name, part in vars(metric).items() if not isinstance(part, nn.Module)}):
        part = network.metric()
        vars(part).update(state)
        whole.merge(part)
    return whole


def draw_apart(seed: int) -> None:
    """Random numbers of this process that are not those of the others: for dropout, after the weights are drawn."""
    if rank():
        torch.default_generator.manual_seed((seed + 7919 * rank()) % 2**64)


def same_everywhere(what: str, digest: str) -> None:
    """Raise unless every process has the same `digest`."""
    if size() > 1 and len(set(gather(digest))) > 1:
        raise RunError(f"{what} differ between the processes; give all hosts the same files and versions")


def scaled(mean: Tensor, weight: float, whole: float) -> Tensor:
    """A mean over a part, so that the average over processes is the mean over the whole."""
    return mean * (weight * size() / max(1.0, whole))
