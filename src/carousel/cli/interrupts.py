"""Ctrl-C on the command line, also where Python loses it.

An import that is interrupted may raise another exception (numpy's `__getattr__` recurses to the limit), or none (what
is raised in a callback, such as a finalizer, is printed or ignored), or abort (torch's C++ code is not made for it).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_seen = False


@contextmanager
def remembered() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt as ever, and is remembered, unless the host has a handler of its own."""
    global _seen
    _seen = False
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    try:
        signal.signal(signal.SIGINT, _remember)
    except ValueError:  # not in the main thread, where signals arrive
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _remember(number: int, frame: FrameType | None) -> None:
    global _seen
    _seen = True
    signal.default_int_handler(number, frame)


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Ctrl-C ends the process: for imports, while there is nothing to clean up. Only where it is `remembered`."""
    if signal.getsignal(signal.SIGINT) is not _remember:
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _remember)


def _end(number: int, frame: FrameType | None) -> None:
    sys.stderr.write("error: interrupted\n")
    sys.stderr.flush()
    os._exit(130)


def seen() -> bool:
    """Whether Ctrl-C was pressed."""
    return _seen


def check() -> None:
    """Raise KeyboardInterrupt if Ctrl-C was pressed and its exception was lost."""
    if _seen:
        raise KeyboardInterrupt
