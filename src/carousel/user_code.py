"""Objects that a user names as `FILE.py:NAME`. This runs the file, so it is only for files that the user names."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import sys
import traceback
from pathlib import Path
from typing import Any

from .errors import ArgumentError, CarouselError, did_you_mean, shorten

PREFIX = "carousel_user_"  # of the names of modules made of such files


def is_place(text: str) -> bool:
    """Whether `text` has the form FILE.py:NAME.

    >>> is_place("my_task.py:Sensor"), is_place("classify")
    (True, False)
    """
    file, colon, name = text.rpartition(":")
    return bool(colon and file.endswith(".py") and name)


def mistake(error: BaseException) -> str | None:
    """What an exception in a file that `load_place` ran says, with the file and the line; None if it is not in one."""
    places = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__", "")).startswith(PREFIX)
    ]
    if not places:
        return None
    (file, line), text = places[-1], " ".join(str(error).split())
    kind = "" if isinstance(error, AttributeError) and text.startswith("there is no ") else f"{type(error).__name__}: "
    path = Path(file)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"{shown}:{line}: {kind}{shorten(text, 300)}"


def load_place(place: str, what: str) -> Any:
    """The object NAME of the file in `FILE.py:NAME`; `what` is the word for it in messages."""
    file, _, name = place.rpartition(":")
    if not is_place(place):
        raise ArgumentError(f"{place}: {what} is named FILE.py:CLASS")
    if not Path(file).is_file():
        raise FileNotFoundError(errno.ENOENT, "no such file", file)
    path = Path(file).resolve()
    # A name of its own, so that no installed module is hidden; in sys.modules, where annotations are looked up.
    own = f"{PREFIX}{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    changed = path.stat().st_mtime_ns
    module = sys.modules.get(own)
    if module is None or module.__dict__.get("__changed__") != changed:
        spec = importlib.util.spec_from_file_location(own, path)
        assert spec is not None and spec.loader is not None
        module = sys.modules[own] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[own]
            if isinstance(error, CarouselError):
                raise
            raise ArgumentError(f"{file}: it cannot be imported ({type(error).__name__}: {error})") from error
        module.__dict__["__changed__"] = changed
    if not hasattr(module, name):
        hint = did_you_mean(name, vars(module))
        raise ArgumentError(f"{file}: it defines no {name}{hint and '; ' + hint}")
    return getattr(module, name)
