"""Parallel files are checked before training."""

import json

import pytest

from carousel.data import Vocabulary
from carousel.tasks.translate.check import check_pairs
from carousel.tasks.translate.pairs import Pairs


def test_check(command, pairs, tmp_path):
    files = (pairs / "train.tsv", "--dev", pairs / "dev.tsv")
    code, out, _ = command("check", "translate", *files, "--set", "tokens=word", "--json")
    found = json.loads(out)
    assert code == 0 and found["source"]["train"]["lines"] == 400 and found["long"] == 0


SOURCE = ["a b", "b", "a a a a", "c"]
TARGET = ["x", "y y", "x y x", "y"]


@pytest.fixture
def write(tmp_path):
    def make(name, lines):
        path = tmp_path / name
        path.write_text("".join(line + "\n" for line in lines), "utf-8")
        return path

    return make


@pytest.fixture
def files(write):
    return [write("a.en", SOURCE), write("a.de", TARGET)]


def test_lengths_and_unknown_words(files, write):
    vocabulary = Vocabulary.train([*SOURCE, *TARGET], "word")
    dev = Pairs([write("d.en", ["a b", "zz " * 20]), write("d.de", ["x", "y"])])
    found = check_pairs(Pairs(files), dev, vocabulary, vocabulary, max_length=3)
    assert (found.source.train.tokens, found.target.train.tokens) == (8, 7)
    assert (found.source.dev.unknown, found.source.shared, found.long, found.unlike) == (20, 1, 1, 0)
    swapped = check_pairs(dev, None, vocabulary, vocabulary, max_length=30)
    assert (swapped.unlike, swapped.first_unlike) == (1, 2)
    assert any("d.en:2: one side is more than three times as long" in line for line in swapped.warnings)
    assert swapped.as_dict()["source"]["train"]["lines"] == 2
