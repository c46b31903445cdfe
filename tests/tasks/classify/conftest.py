"""Reviews, settings and a trained run, for the tests of the classifier."""

import pytest
from helpers.classifiers import write_reviews

from carousel.tasks.classify.settings import ClassifySettings
from carousel.tasks.classify.task import Classify
from carousel.training import trainer


@pytest.fixture(scope="session")
def reviews(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reviews")
    write_reviews(folder / "train.tsv", 96, seed=1)
    write_reviews(folder / "dev.tsv", 30, seed=2)
    return folder


@pytest.fixture
def settings(reviews, tmp_path):
    def make(**given):
        small = {"hidden": 8, "embedding": 8, "epochs": 2, "lr": 0.02, "batch_size": 8, "log_steps": 3}
        files = {"train": reviews / "train.tsv", "dev": reviews / "dev.tsv", "cache": tmp_path / "cache"}
        return ClassifySettings.read({**files, **small, **given})

    return make


@pytest.fixture(scope="session")
def trained(reviews, tmp_path_factory):
    """A run that has learned which words tell.

    One epoch: of several with the same metric the first is kept, before the learning is complete.
    """
    folder = tmp_path_factory.mktemp("runs")
    write_reviews(folder / "train.tsv", 960, seed=1)
    given = {"hidden": 8, "embedding": 8, "epochs": 1, "lr": 0.02, "batch_size": 8, "max_length": 1000}
    files = {"train": folder / "train.tsv", "dev": reviews / "dev.tsv", "cache": folder / "cache"}
    trainer.train(Classify, ClassifySettings.read({**files, **given}), folder / "run", quiet=True)
    return folder / "run"
