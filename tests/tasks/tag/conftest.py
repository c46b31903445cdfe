"""Sentences with names, settings and a trained run, for the tests of the tagger."""

import random

import pytest

from carousel.data.text.tags import convert
from carousel.tasks.tag.settings import TagSettings
from carousel.tasks.tag.task import Tag
from carousel.training import trainer

NAMES, PLACES, OTHER = ["Ada", "Alan", "Grace"], ["Paris", "Rome"], ["saw", "the", "a", "met", "in", "near", "slowly"]
SMALL = {
    "hidden": 12, "embedding": 8, "character_embedding": 4, "character_hidden": 4, "batch_size": 8, "lr": 0.03,
    "epochs": 2, "log_steps": 3, "min_frequency": 1, "dropout": 0.1, "dev_split": "none",
}  # fmt: skip


def write_names(path, count, seed, scheme="iob2"):
    """Sentences with names of one or two words, which the words tell."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        words, tags, kind = [], [], None
        for _ in range(draw.randint(1, 4)):
            kind = draw.choice([other for other in ("PER", "LOC", "O") if other != kind])
            span = [draw.choice({"PER": NAMES, "LOC": PLACES, "O": OTHER}[kind]) for _ in range(draw.randint(1, 2))]
            words += span
            tags += ["O"] * len(span) if kind == "O" else [f"B-{kind}"] + [f"I-{kind}"] * (len(span) - 1)
        lines += [f"{word}\t{tag}\n" for word, tag in zip(words, convert(tags, scheme), strict=True)] + ["\n"]
    path.write_text("".join(lines), "utf-8")


@pytest.fixture(scope="session", name="write_names")
def _write_names():
    return write_names


@pytest.fixture(scope="session")
def names(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    write_names(folder / "train.conll", 80, seed=1)
    write_names(folder / "dev.conll", 30, seed=2)
    return folder


@pytest.fixture
def settings(names, tmp_path):
    def make(**given):
        files = {"train": names / "train.conll", "dev": names / "dev.conll", "cache": tmp_path / "cache"}
        return TagSettings.read({**files, **SMALL, **given})

    return make


@pytest.fixture(scope="session")
def trained(names, tmp_path_factory):
    """A run that has learned which words are names.

    One epoch: of several with the same metric the first is kept, before the learning is complete.
    """
    folder = tmp_path_factory.mktemp("runs")
    write_names(folder / "train.conll", 960, seed=1)
    files = {"train": folder / "train.conll", "dev": names / "dev.conll", "cache": folder / "cache"}
    given = {**files, **SMALL, "epochs": 1, "dropout": 0.0, "word_dropout": 0.0}
    return trainer.train(Tag, TagSettings.read(given), folder / "run", quiet=True).folder
