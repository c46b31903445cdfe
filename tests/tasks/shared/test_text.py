"""Settings of plain text: layouts, vocabularies and caches."""

from pathlib import Path

import pytest

from carousel.data import LineBatches, Lines, RunningText, StreamBatches, Vocabulary
from carousel.tasks.lm.settings import LanguageSettings
from carousel.tasks.shared.text import default_cache


@pytest.fixture
def settings(text_file, tmp_path):
    path = text_file("abba\n\na cab\n")

    def make(**given):
        return LanguageSettings.read({"train": path, "cache": tmp_path / "cache", **given})

    return make


@pytest.mark.parametrize(("layout", "kind"), [("lines", Lines), ("running", RunningText), ("sentences", RunningText)])
def test_the_layout_of_a_file(settings, layout, kind):
    own = settings(layout=layout)
    source = own.source(own.train)
    assert type(source) is kind and own.source(source) is source
    store = own.store(own.train, own.make_vocabulary(source))
    batches = LineBatches if layout == "lines" else StreamBatches
    assert type(own.training_batches(store)) is type(own.reading_batches(store)) is batches
    assert own.reading_batches(store).tokens >= len("abba") + len("a cab")


@pytest.mark.parametrize(
    ("text", "given", "known"),
    [
        ("a b a\nb c\n", {"tokens": "word"}, ["a", "b"]),  # c occurs once, like a word of other text that is not here
        ("a b a\nb c\n", {"tokens": "word", "min_frequency": 1}, ["a", "b", "c"]),
        ("a b\nc\n", {"tokens": "word"}, ["a", "b", "c"]),  # none occurs twice
        ("aab\n", {"tokens": "character"}, ["a", "b"]),
        ("aab\n", {"tokens": "character", "min_frequency": 2}, ["a"]),
    ],
)
def test_the_frequency_that_a_token_must_have(settings, text_file, text, given, known):
    own = settings(train=text_file(text, "few.txt"), **given)
    assert own.make_vocabulary(own.source(own.train)).tokens[4:] == known


def test_a_vocabulary_is_learned_or_given(settings, tmp_path):
    own = settings()
    assert set(own.make_vocabulary(own.source(own.train)).tokens[4:]) == set("abc ")
    (tmp_path / "words.txt").write_text("abba\ncab\n")
    given = settings(vocabulary=tmp_path / "words.txt", tokens="word")
    assert given.make_vocabulary(given.source(given.train)).tokens[4:] == ["abba", "cab"]
    Vocabulary.train(["xyz"]).save(tmp_path / "tokenizer.json")
    saved = settings(vocabulary=tmp_path / "tokenizer.json")
    assert set(saved.make_vocabulary(saved.source(saved.train)).tokens[4:]) == set("xyz")


def test_the_cache_is_the_users_own(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "carousel" / "tokens"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache() == Path.home() / ".cache" / "carousel" / "tokens"
