"""Pairs that a small translator learns completely, and a run that has learned them."""

import random

import pytest
from helpers.translators import LETTERS, SMALL

import carousel
from carousel.tasks.translate.settings import TranslateSettings
from carousel.tasks.translate.task import Translate
from carousel.training import trainer


def write_reversed(path, count, seed):
    """Pairs of one to four letters and the same backwards in upper case, which a small network learns completely."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        letters = [draw.choice(LETTERS) for _ in range(draw.randint(1, 4))]
        lines.append(f"{' '.join(letters)}\t{' '.join(reversed(letters)).upper()}\n")
    path.write_text("".join(lines), "utf-8")


@pytest.fixture(scope="session")
def pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    write_reversed(folder / "train.tsv", 400, seed=1)
    write_reversed(folder / "dev.tsv", 40, seed=2)
    return folder


@pytest.fixture
def settings(pairs, tmp_path):
    def make(**given):
        files = {"train": pairs / "train.tsv", "dev": pairs / "dev.tsv", "cache": tmp_path / "cache"}
        return TranslateSettings.read({**files, **SMALL, **given})

    return make


@pytest.fixture(scope="session")
def run(pairs, tmp_path_factory):
    """A run that has learned to reverse words.

    One epoch: of several with the same metric the first is kept, before the learning is complete.
    """
    folder = tmp_path_factory.mktemp("runs")
    write_reversed(folder / "train.tsv", 8000, seed=1)
    given = {"hidden": 32, "embedding": 24, "epochs": 1, "batch_size": 32, "lr": 0.02, "schedule": "linear",
             "dropout": 0.0, "label_smoothing": 0.0}  # fmt: skip
    files = {"train": folder / "train.tsv", "dev": pairs / "dev.tsv", "cache": folder / "cache"}
    settings = TranslateSettings.read({**files, **SMALL, **given})
    trainer.train(Translate, settings, folder / "run", quiet=True, report=False)
    return folder / "run"


@pytest.fixture(scope="session")
def trained(run):
    return carousel.load(run)
