"""Models: an embedder, an encoder of any cell, a head or a decoder; one short file for each task."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ..errors import SettingsError, did_you_mean

if TYPE_CHECKING:
    from ..training import Task

# name of the task → its class, imported when asked for
TASKS = {
    "lm": "language.LanguageModel",
    "bilm": "bilm.BiLanguageModel",
    "classify": "classify.Classifier",
    "tag": "tag.Tagger",
    "encode": "encode.SentenceEncoder",
    "tree": "tree.TreeModel",
    "forecast": "forecast.Forecaster",
    "translate": "translate.Translator",
}


def find_task(name: str) -> type[Task]:
    """The class of the task `name`."""
    if name not in TASKS:
        hint = did_you_mean(name, TASKS) or f"tasks are {', '.join(TASKS)}"
        raise SettingsError(f"task: there is no {name!r}; {hint}")
    module, _, class_name = TASKS[name].partition(".")
    return getattr(importlib.import_module(f"{__name__}.{module}"), class_name)
