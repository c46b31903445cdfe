"""Text in which a word tells the next, and settings."""

import pytest
from helpers.bilms import SMALL, write_sentences

from carousel.tasks.bilm.settings import BilmSettings


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    write_sentences(folder / "train.txt", 60, 1)
    write_sentences(folder / "dev.txt", 20, 2)
    return folder


@pytest.fixture
def settings(text, tmp_path):
    def make(**given):
        files = {"train": text / "train.txt", "dev": text / "dev.txt", "cache": tmp_path / "cache"}
        return BilmSettings.read({**files, **SMALL, **given})

    return make
