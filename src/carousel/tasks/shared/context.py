"""A bidirectional language model as an embedder: what a run that reads with one keeps of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from ...data.stores.examples import CONTEXT, ExampleStore
from ...data.text.tokenizers import UNK
from ...data.text.vectors import Vectors
from ...data.text.words import WordVocabulary
from ...errors import RunError
from ...files import write_text
from ...training import Run
from ...training.manifest import check_manifest
from ...wording import an
from ..bilm.data import BilmAssets
from ..bilm.settings import BilmSettings
from ..runs import settings_of
from .reading import TextAssets
from .settings import WordSettings

if TYPE_CHECKING:  # data is read without torch
    from torch import Tensor

FOLDER = "embedder"  # in the run directory of the task that uses it


@dataclass
class ContextAssets:
    """The bilm that a task reads with: its settings and words, which are kept in the run directory of the task."""

    settings: BilmSettings
    bilm: BilmAssets
    name: str  # the run that it was taken from
    weights: dict[str, Tensor] | None = None  # of that run, for a new network

    @classmethod
    def find(cls, settings: WordSettings) -> Self | None:
        """Those of the run that the settings of a new run name."""
        if settings.embedder is None:
            return None
        run = Run(settings.embedder)
        task, own = settings_of(run)
        if not isinstance(own, BilmSettings):
            raise RunError(f"{run.folder}: {an(task.name)} run; an embedder is a bilm run")
        check_manifest(run.folder, own.lasting)
        return cls(own, task.load_assets(own, run.folder), str(settings.embedder), run.read_weights())

    def save(self, folder: Path) -> None:
        """Write what `load` reads to the directory of the run that uses it, whose own weights include the bilm's."""
        own = folder / FOLDER
        own.mkdir(exist_ok=True)
        write_text(own / "config.yaml", self.settings.to_yaml())
        self.bilm.save(own)

    @classmethod
    def load(cls, settings: WordSettings, folder: Path) -> Self | None:
        """Those in a run directory."""
        if settings.embedder is None:
            return None
        task, own = settings_of(Run(folder / FOLDER))
        assert isinstance(own, BilmSettings)
        return cls(own, task.load_assets(own, folder / FOLDER), str(settings.embedder))

    @property
    def words(self) -> WordVocabulary:
        return self.bilm.words


@dataclass(kw_only=True)
class LabelledAssets(TextAssets):
    """What a run on labelled text keeps beside vocabulary and labels."""

    context: ContextAssets | None = None  # of an embedder
    vectors: Vectors | None = None  # that the words of a new network begin with

    def save(self, folder: Path) -> None:
        super().save(folder)
        if self.context is not None:
            self.context.save(folder)

    @property
    def context_words(self) -> WordVocabulary | None:
        """The words of the embedder."""
        return None if self.context is None else self.context.words

    def describe_context(self, store: ExampleStore) -> dict[str, str]:
        """A line for the report on how much of the examples to train on the embedder knows."""
        if self.context is None:
            return {}
        read = [column.values for name, column in store.columns.items() if name.endswith(CONTEXT + "tokens")]
        words = np.concatenate(read)
        unknown = f"{np.count_nonzero(words == UNK) / len(words):.2%} of the words unknown to it"
        return {"embedder": f"{self.context.name}: a bilm; {unknown}"}
