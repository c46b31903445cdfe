"""Word vectors in every format, looked up in the memory-mapped store."""

import json
import re
import struct

import numpy as np
import pytest
from safetensors.numpy import save_file

from carousel.data import Vocabulary
from carousel.data.corpora import CORPORA
from carousel.data.text import vectors as module
from carousel.data.text.vectors import FETCHED, FILE, find_vectors, open_vectors, vectors_folder, width_of
from carousel.errors import DataError

WORDS = ["the", "sea", "Sky", "naïve", "."]
VALUES = np.arange(15, dtype=np.float32).reshape(5, 3) / 4


@pytest.fixture
def vectors(text_file, tmp_path):
    """The vectors of three words in a text."""
    words = Vocabulary.from_tokens(["The", "sea", "sky"], "word")
    return lambda text: open_vectors(text_file(text), tmp_path / "cache").of(words.tokens)


def as_text(path, header=""):
    rows = (f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, VALUES, strict=True))
    path.write_text(header + "".join(rows), "utf-8")


def as_binary(path):
    """As word2vec.c writes it: a line feed after each vector."""
    parts = [b"%s %s\n" % (word.encode(), struct.pack("<3f", *row)) for word, row in zip(WORDS, VALUES, strict=True)]
    path.write_bytes(b"5 3\n" + b"".join(parts))


FORMATS = {
    "glove.txt": as_text,
    "word2vec.txt": lambda path: as_text(path, "5 3\n"),
    "fasttext.vec": lambda path: as_text(path, "5 3\n"),
    "word2vec.bin": as_binary,
    "gensim.bin": lambda path: (
        as_binary(path),
        path.write_bytes(path.read_bytes().replace(b"\n", b"").replace(b"5 3", b"5 3\n", 1)),
    ),
    "in.safetensors": lambda path: save_file({"vectors": VALUES}, path, {"words": json.dumps(WORDS)}),
    "beside.safetensors": lambda path: (
        save_file({"embedding": VALUES}, path),
        path.with_suffix(".txt").write_text("\n".join(WORDS) + "\n", "utf-8"),
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format(tmp_path, name):
    path = tmp_path / name
    FORMATS[name](path)
    assert width_of(path) == 3
    found = open_vectors(path, tmp_path / "cache")
    assert len(found) == 5 and found.size == 3
    rows = found.rows(["SEA", "sea", "Sky", "sky", "naïve", ".", "none", "NAÏVE"])
    assert rows.tolist() == [1, 1, 2, -1, 3, 4, -1, 3]
    np.testing.assert_array_equal(found.values[rows[4]], VALUES[3])
    FORMATS["glove.txt"](tmp_path / "same.txt")
    assert open_vectors(tmp_path / "same.txt", tmp_path / "cache").digest == found.digest


def test_the_store_is_used_again_until_the_file_changes(text_file, tmp_path, monkeypatch):
    path, cache = text_file("the 1 2\nsea 3 4\n"), tmp_path / "cache"
    first = open_vectors(path, cache)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_build", None)
        again = open_vectors(path, cache)
        assert again.digest == first.digest and again.rows(["sea"]).tolist() == [1]
    changed = open_vectors(text_file("the 1 2\nsea 3 4\nsky 5 6\n"), cache)
    assert changed.digest != first.digest and len(changed) == 3


def test_words_with_the_same_key_are_told_apart(vectors, monkeypatch, text_file, tmp_path):
    path = text_file("the 1 2\n")
    monkeypatch.setattr(module, "_key", lambda word: 7)
    assert open_vectors(path, tmp_path / "cache").rows(["sea", "the"]).tolist() == [-1, 0]


def test_vectors_with_and_without_a_header(vectors):
    for head in ("", "3 2\n"):
        found = vectors(f"{head}the 1 2\nsea 3 4\nSky 5 6\n")
        assert found.values[4:].tolist() == [[1, 2], [3, 4], [0, 0]]
        assert found.known.tolist() == [False] * 4 + [True, True, False]


def test_the_exact_word_comes_before_the_lower_one(vectors):
    for text in ("the 1 2\nThe 3 4\n", "The 3 4\nthe 1 2\n", "The 3 4\nThe 5 6\n"):
        assert vectors(text).values[4].tolist() == [3, 4]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("the 1 2\nsea 3\n", ":2: 1 number, where the first word has 2; each line is a word and its numbers"),
        ("the 1 2\nsea 3 x\n", ":2: a value after 'sea' is not a number; fix the line"),
        ("the 1 nan\n", ":1: the vector of 'the' is not finite"),
        ("uno 1 2\n", ": it has no word of the training data; give vectors for this language"),
        ("words\n", ":1: 0 numbers, where the first word has 0"),
        ("3 2\n", ": there are no vectors in it"),
    ],
)
def test_bad_vectors(vectors, text, said):
    with pytest.raises(DataError) as error:
        vectors(text)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "cut.bin",
            b"2 2\nthe " + struct.pack("<2f", 1, 2) + b"\nsea \0",
            "it ends in word 2 of 2; fetch the file again",
        ),
        (
            "text.bin",
            b"the 1 2\nsea 3 4\n",
            "not in the binary format of word2vec; give a text file of vectors as .txt",
        ),
        ("model.bin", struct.pack("<ii", 793712314, 12), "a fastText model, not vectors; give its .vec file"),
        ("x.safetensors", b"words", "not a safetensors file of vectors"),
    ],
)
def test_bad_files(tmp_path, name, content, said):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as error:
        open_vectors(path, tmp_path / "cache")
    assert f"{path}: {said}" in str(error.value)
    assert width_of(path) == (2 if name == "cut.bin" else None)


def test_words_and_vectors_must_be_as_many(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"vectors": VALUES}, path, {"words": json.dumps(WORDS[1:])})
    with pytest.raises(DataError, match="5 vectors, but 4 words; give a word for each"):
        open_vectors(path, tmp_path / "cache")


def test_names_of_vectors_that_can_be_fetched(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert set(FETCHED) == {
        name for name, corpus in CORPORA.items() if corpus.place and corpus.place().parent == vectors_folder()
    }
    for given, remedy in (("glove", "carousel data get glove"), ("golve", "did you mean glove?"),
                          ("nope", "give a file, or glove")):  # fmt: skip
        with pytest.raises(DataError, match=f"no vectors of this name; {re.escape(remedy)}$"):
            find_vectors(given)
    (vectors_folder() / "mine").mkdir(parents=True)
    (vectors_folder() / "mine" / FILE).write_text("a 1 2\n")
    assert find_vectors("mine").read_text() == "a 1 2\n"
    with pytest.raises(DataError, match="did you mean mine"):
        find_vectors("mien")
