"""Objects that a user names as `FILE.py:NAME`. This runs the file, so it is only for files that the user names."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from .errors import ArgumentError, CarouselError, did_you_mean


def is_place(text: str) -> bool:
    """Whether `text` has the form FILE.py:NAME.

    >>> is_place("my_task.py:Sensor"), is_place("classify")
    (True, False)
    """
    file, colon, name = text.rpartition(":")
    return bool(colon and file.endswith(".py") and name)


def load_place(place: str, what: str) -> Any:
    """The object NAME of the file in `FILE.py:NAME`; `what` is the word for it in messages."""
    file, _, name = place.rpartition(":")
    if not is_place(place):
        raise ArgumentError(f"{place}: {what} is named FILE.py:CLASS")
    if not Path(file).is_file():
        raise FileNotFoundError(errno.ENOENT, "no such file", file)
    path = Path(file).resolve()
    # A name of its own, so that no installed module is hidden; in sys.modules, where annotations are looked up.
    own = f"carousel_user_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
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
