"""Keys that several tasks share: vectors by name or by path, and what needs an embedder."""

import os

import pytest

from carousel.errors import SettingsError
from carousel.tasks.classify.settings import ClassifySettings
from carousel.tasks.shared.settings import _path_or_name


def test_vectors_are_a_name_or_an_absolute_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert _path_or_name("glove") == "glove"
    assert _path_or_name("glove.txt") == os.path.join(tmp_path, "glove.txt")
    assert _path_or_name("deep/glove") == os.path.join(tmp_path, "deep", "glove")
    (tmp_path / "mine").touch()
    assert _path_or_name("mine") == os.path.join(tmp_path, "mine")  # a file that is there
    assert _path_or_name(None) is None


def test_the_size_of_the_embedding_follows_the_vectors(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("warm 1 2 3\n")
    assert ClassifySettings.read({"train": path, "vectors": path}).embedding == 3
    assert ClassifySettings.read({"train": path, "vectors": path, "embedding": 7}).embedding == 7


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"embedder_tuned": True}, "embedder_tuned: there is no embedder; give embedder, or leave it out"),
        ({"embedder": "run", "tokens": "bpe"}, "embedder: it reads words, and tokens is bpe"),
    ],
)
def test_what_an_embedder_needs(given, message):
    with pytest.raises(SettingsError, match=message):
        ClassifySettings.read({"train": "t.tsv", **given})


def test_lower_case_is_applied_where_it_is_asked_for():
    assert ClassifySettings.read({"train": "t", "lower": False}).read_text("A b") == "A b"
    assert ClassifySettings.read({"train": "t", "lower": True}).reader(None)("A b") == "a b"
