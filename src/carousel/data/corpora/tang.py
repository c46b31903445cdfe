"""Regulated verse of the Tang: 五言律詩, one poem a line."""

from __future__ import annotations

import json
import re

from .corpus import PARTS, Conversion, Corpus, File, Release, part_of
from .packages import Package

_MARKS = re.compile("[，。！？；、：]+")
_LINE = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]{5}")  # no □ for what nobody can read


def convert(package: Package) -> Conversion:
    """The poems of eight lines of five characters, in the order of the book."""
    texts = package.read("dist/quantangshi/poet.tang.*.json", "LICENSE")
    licence = texts.pop("LICENSE")
    other = illegible = twice = regularised = 0
    poems: dict[str, None] = {}
    for path in sorted(texts, key=lambda path: int(path.split(".")[-2])):
        for entry in json.loads(texts[path]):
            text = "".join(entry["paragraphs"])
            lines = [line for line in _MARKS.split(text) if line]
            if [len(line) for line in lines] != [5] * 8:
                other += 1
            elif not all(map(_LINE.fullmatch, lines)):
                illegible += 1
            else:
                poem = "".join(f"{a}，{b}。" for a, b in zip(lines[::2], lines[1::2], strict=True))
                twice += poem in poems
                regularised += poem != text and poem not in poems
                poems[poem] = None
    return Conversion(
        {f"{part}.txt": File.of_lines(poem for poem in poems if part_of(poem) == part) for part in PARTS},
        licence=licence,
        left_out={
            "poems of another form": other,
            "poems with characters that are lost or in no standard": illegible,
            "duplicate poems": twice,
        },
        changed={"poems with other punctuation than ， and 。 in turn": regularised},
    )


TANG = Corpus(
    name="tang",
    title="Tang poems, 五言律詩, in traditional characters",
    release=Release("npm", "chinese-poetry", "2.0.1", megabytes=85, licence="MIT"),
    unit="poems",
    done="Kept the poems of eight lines of five characters (tones and rhyme were not looked at), without title and "
    "author, one per line, each couplet written as 五字，五字。 Of ten poems, eight are in train, one in dev, one in "
    "test, by a hash of the poem.",
    command="carousel train lm {out}/train.txt --dev {out}/dev.txt --out run",
    convert=convert,
)
