"""How far the preparation of data has come, for whoever wants to show it: reading prints nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T")

STEP = 1 << 20  # bytes between two reports


class Progress(NamedTuple):
    """What is being done to which file, how many of its bytes have been read, and of how many, if that is known."""

    stage: str
    path: Path
    done: int
    total: int | None = None


Listener = Callable[[Progress], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
_stage: ContextVar[str] = ContextVar("stage", default="reading")


def listening(listener: Listener) -> AbstractContextManager[None]:
    """Call `listener` about once per megabyte that is read in this context."""
    return _within_context(_listener, listener)


def stage(name: str) -> AbstractContextManager[None]:
    """Name what is done to the files that are read in this context, such as "tokenizing"."""
    return _within_context(_stage, name)


@contextmanager
def _within_context(variable: ContextVar[T], value: T) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def advance(lines: Iterable[bytes], path: Path, total: int | None = None) -> Iterator[bytes]:
    """`lines` of a file, which are reported as they pass.

    >>> seen = []
    >>> with listening(seen.append), stage("counting"):
    ...     number = sum(1 for _ in advance([b"x" * 1023 + b"\\n"] * 4096, Path("poems.txt")))
    >>> number, len(seen), seen[-1].done == 4096 * 1024
    (4096, 4, True)
    """
    listener = _listener.get()
    if listener is None:
        yield from lines
        return
    done, shown, name = 0, 0, _stage.get()
    for line in lines:
        done += len(line)
        if done - shown >= STEP:
            shown = done
            listener(Progress(name, path, done, total))
        yield line
