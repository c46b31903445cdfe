"""The word vectors that a run needs for words outside of its vocabulary: named by digest, or kept in the run."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from ...data import Vocabulary
from ...data.stores.ragged import Damaged
from ...data.text.vectors import WordVectors, find_vectors, open_vectors, read_store
from ...errors import DataError, RunError
from ...files import write_json
from ...training.run import read_json
from ...wording import setting
from .settings import VectorSettings

NAMED = "vectors.json"
KEPT = "vectors.arrow"


@dataclass
class Needed:
    """Which vectors a run needs."""

    digest: str
    words: int
    size: int  # numbers of each vector


def save_vocabulary(folder: Path, vocabulary: Vocabulary) -> None:
    """Write what `load_vocabulary` reads."""
    vocabulary.save(folder / "tokenizer.json")
    save_vectors(folder, vocabulary)


def load_vocabulary(settings: VectorSettings, folder: Path) -> Vocabulary:
    """The vocabulary of a run, with the words beyond it that the run knows."""
    return load_vectors(settings, folder, Vocabulary.load(folder / "tokenizer.json"))


def save_vectors(folder: Path, vocabulary: Vocabulary) -> None:
    """Write which vectors belong to the run, and a copy of them if it is to have one."""
    vectors = vocabulary.beyond
    if vectors is None:
        return
    write_json(folder / NAMED, asdict(Needed(vectors.digest, len(vectors), vectors.size)), indent=2)
    if vectors.embedded:
        shutil.copyfile(vectors.store, folder / KEPT)


def load_vectors(settings: VectorSettings, folder: Path, vocabulary: Vocabulary) -> Vocabulary:
    """`vocabulary` with the words beyond it that the run knows."""
    if (folder / NAMED).exists():
        digest = read_json(folder / NAMED, Needed).digest
        vocabulary.beyond = _kept(folder / KEPT) if (folder / KEPT).exists() else _find(settings, folder, digest)
        vocabulary.beyond.embedded = (folder / KEPT).exists()
        if vocabulary.beyond.digest != digest:
            problem = f"{vocabulary.beyond.path}: not the word vectors that the run in {folder} was trained with"
            raise RunError(f"{problem} (their digest begins with {digest[:8]}); restore them")
    return vocabulary


def _kept(path: Path) -> WordVectors:
    try:
        return read_store(path)
    except (Damaged, KeyError) as error:
        raise RunError(f"{path}: damaged; copy it from an intact copy of the run, or train again") from error


def _find(settings: VectorSettings, folder: Path, digest: str) -> WordVectors:
    try:
        return open_vectors(find_vectors(settings.vectors or ""), settings.cache_folder)
    except DataError as error:
        needs = f"{folder}: the run needs its word vectors (digest {digest[:8]}…)"
        raise RunError(
            f"{needs}: {error}; or train with {setting('embed_vectors', 'all')} to keep them in the run"
        ) from error
