"""Pairs of texts, settings and trained runs, for the tests of the sentence encoder."""

import random

import pytest

from carousel.tasks.encode.settings import EncodeSettings
from carousel.tasks.encode.task import Encode
from carousel.training import trainer

NOUNS, VERBS = ["dog", "cat", "man", "girl"], ["runs", "sleeps", "sings"]


def write_pairs(path, count, seed, kind="score"):
    """Two short sentences; the score counts what they share, the class says whether they are the same."""
    draw = random.Random(seed)
    rows = ["id\tsentence_A\tsentence_B\tscore"]
    for k in range(count):
        a, b = ([draw.choice(NOUNS), draw.choice(VERBS)] for _ in range(2))
        if draw.random() < 0.5:
            b[0] = a[0]
        if draw.random() < 0.3:
            b[1] = a[1]
        shared = (a[0] == b[0]) * 2 + (a[1] == b[1])
        label = f"{1 + shared}.5" if kind == "score" else ("same" if shared == 3 else "other")
        rows.append(f"{k}\tthe {' '.join(a)}\tthe {' '.join(b)} now\t{label}")
    path.write_text("\n".join(rows) + "\n")


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    for kind in ("score", "class"):
        write_pairs(folder / f"{kind}.tsv", 160, 1, kind)
        write_pairs(folder / f"{kind}-dev.tsv", 40, 2, kind)
    return folder


@pytest.fixture
def settings(files, tmp_path):
    def make(kind="score", **given):
        small = {"hidden": 8, "embedding": 8, "head": 8, "epochs": 2, "lr": 0.02, "batch_size": 16}
        data = {"train": files / f"{kind}.tsv", "dev": files / f"{kind}-dev.tsv", "cache": tmp_path / "cache"}
        return EncodeSettings.read({**data, **small, **given})

    return make


@pytest.fixture(scope="session", params=["score", "class"])
def trained(request, files, tmp_path_factory):
    """A run that has learned what pairs share.

    One epoch: of several with the same metric the first is kept, before the learning is complete.
    """
    folder = tmp_path_factory.mktemp("runs")
    kind = request.param
    write_pairs(folder / "train.tsv", 1600, 1, kind)
    given = {"hidden": 16, "embedding": 12, "head": 24, "epochs": 1, "lr": 0.02, "batch_size": 16, "dropout": 0.0,
             "word_dropout": 0.0}  # fmt: skip
    data = {"train": folder / "train.tsv", "dev": files / f"{kind}-dev.tsv", "cache": folder / "cache"}
    trainer.train(Encode, EncodeSettings.read({**data, **given}), folder / kind, quiet=True)
    return folder / kind
