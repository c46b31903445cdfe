"""Which tasks there are. A task is imported when it is first needed, so that one task does not wait for the others.

A task is known by its `name`: one of this package; one that an installed package declares in the entry point group
`carousel.tasks`; or a class that has been defined in this process, since every subclass of `Task` with a name
registers itself. `FILE.py:CLASS` names a task in a file of the user's. A run directory never runs code by itself.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from ..errors import ArgumentError, CarouselError, DataError, did_you_mean
from ..user_code import is_place, load_place
from ..wording import either

GROUP = "carousel.tasks"
_PLACES = {
    "lm": "carousel.tasks.lm.task:LanguageTask",
    "bilm": "carousel.tasks.bilm.task:Bilm",
    "classify": "carousel.tasks.classify.task:Classify",
    "sequences": "carousel.tasks.sequences.task:Sequences",
    "tag": "carousel.tasks.tag.task:Tag",
    "encode": "carousel.tasks.encode.task:Encode",
    "tree": "carousel.tasks.tree.task:TreeTask",
    "forecast": "carousel.tasks.forecast.task:Forecast",
    "translate": "carousel.tasks.translate.task:Translate",
}
BUILT_IN = {name: EntryPoint(name, place, GROUP) for name, place in _PLACES.items()}  # declared as others' tasks are
SYNONYMS = {  # what a reader may call a task, and its name
    "language-model": "lm", "char-rnn": "lm", "elmo": "bilm", "text-classification": "classify",
    "sentiment": "classify", "multilabel": "classify", "ner": "tag", "pos": "tag", "chunking": "tag", "crf": "tag",
    "token-classification": "tag", "nli": "encode", "entailment": "encode", "similarity": "encode", "pairs": "encode",
    "embed": "encode", "series": "forecast", "time-series": "forecast", "seq2seq": "translate", "nmt": "translate",
    "mt": "translate", "treebank": "tree", "tree-lstm": "tree", "sensors": "sequences",
}  # fmt: skip
_registered: dict[str, type[Any]] = {}


def register(task: type[Any]) -> None:
    """Let `task` be found by its name; another class of the same name is an error.

    The same class defined again, as in a notebook's cell that is run twice, replaces the former.
    """
    place = f"{task.__module__}:{task.__qualname__}"
    own = _PLACES.get(task.name, place)
    before = _registered.get(task.name)
    if own == place and before is not None and _origin(before) != _origin(task):
        own = f"{before.__module__}:{before.__qualname__}"
    if own != place:
        raise ArgumentError(f"{place}: there is a task {task.name!r} already ({own}); give this one another name")
    _registered[task.name] = task


def find(task: str | type[Any]) -> type[Any]:
    """The class of a task, given by name, as FILE.py:CLASS, or as the class itself."""
    if isinstance(task, type):
        return _checked(task)
    if not isinstance(task, str):
        raise ArgumentError(f"task: give a name, a class, or FILE.py:CLASS, got {task!r}")
    if is_place(task):
        return _checked(load_place(task, "a task"), task)
    if task not in _registered:
        declared = BUILT_IN.get(task) or _installed().get(task)
        if declared is not None:
            declared.load()
    if task not in _registered:
        hint = did_you_mean(task, names(), SYNONYMS) or f"tasks are {', '.join(names())}; or give FILE.py:CLASS"
        raise ArgumentError(f"task: there is no {task!r}; {hint}")
    return _registered[task]


def names() -> list[str]:
    """The names of all tasks, those of this package first."""
    return list(dict.fromkeys([*BUILT_IN, *_installed(), *_registered]))


def find_for(files: Sequence[str | Path]) -> tuple[type[Any], str]:
    """The task that files are data for, by their number, the content of the first or its extension; and by which."""
    from ..data.sources.lines import check_file
    from ..data.sources.recognition import recognise

    tasks = [find(name) for name in names()]
    if len(files) > 1:
        fitting, why = [task for task in tasks if task.num_files == len(files)], f"{len(files)} files"
        if not fitting:
            raise ArgumentError(f"{len(files)} files: a task reads one file, or two of a text and its translation")
    elif (content := recognise(check_file(files[0]))) is not None:
        fitting, why = [task for task in tasks if content in task.contents], f"its rows look like {content}"
    else:
        extension = Path(files[0]).suffix.lower()
        fitting, why = [task for task in tasks if extension in task.extensions], f"its name ends in {extension}"
    if fitting:
        return fitting[0], why
    choices = either(names())
    raise ArgumentError(f"{files[0]}: the task cannot be inferred from its name; name it: {choices}")


@contextmanager
def inferred(task: type[Any], why: str) -> Iterator[None]:
    """What is wrong with data says for which task it was read if that was inferred; `why` is empty if it was given."""
    try:
        yield
    except CarouselError as error:
        if not why:
            raise
        said = f"(read as data for {task.name}: {why}; name the task if it is for another)"
        if isinstance(error, DataError):
            raise DataError(error.file, error.line, error.problem, f"{error.remedy} {said}") from error
        raise type(error)(f"{error} {said}") from error


def having(command: str) -> Iterable[str]:
    """The names of the tasks whose runs have this command."""
    return (name for name in names() if command in find(name).commands)


@functools.cache
def _installed() -> dict[str, EntryPoint]:
    """Tasks that installed packages declare, by name."""
    return {point.name: point for point in entry_points(group=GROUP)}


def _checked(task: Any, place: str | None = None) -> type[Any]:
    """`task` if it is a class that is found by its name."""
    cls: type[Any] = task
    place = place or getattr(task, "__qualname__", repr(task))
    name = getattr(task, "name", None)
    if not isinstance(task, type) or not isinstance(name, str) or not hasattr(task, "prepare"):
        raise ArgumentError(f"{place}: not a task; give a subclass of carousel.tasks.base.Task that has a name")
    if name in BUILT_IN and name not in _registered:
        BUILT_IN[name].load()
    if _registered.get(name) != task:
        raise ArgumentError(f"{place}: its name {name!r} is that of another class; give it a name of its own")
    return cls


def _origin(task: type[Any]) -> tuple[str, str]:
    """Where a class is defined: the file, or the module if there is none, and the name in it."""
    file = getattr(sys.modules.get(task.__module__), "__file__", None)
    return (str(Path(file).resolve()) if file else task.__module__, task.__qualname__)
