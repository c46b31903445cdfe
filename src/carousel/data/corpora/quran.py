"""The Quran and its translations, verse by verse: any two of eleven languages."""

from __future__ import annotations

import json

from .corpus import PARTS, Conversion, Corpus, File, Release, part_of
from .packages import Package

LANGUAGES = ("ar", "bn", "en", "es", "fr", "id", "ru", "sv", "tr", "ur", "zh")


def convert(package: Package, source: str, target: str) -> Conversion:
    """Two files for each part, line by line translations of each other.

    Some translators took several verses together, and their text is then repeated under each of them (in Turkish, 843
    times). A verse that repeats the one before in either language is therefore joined to it, and repeated text is
    kept once.
    """
    paths = {language: f"dist/quran{'' if language == 'ar' else f'_{language}'}.json" for language in (source, target)}
    texts = package.read(*paths.values(), "LICENSE.txt")
    sides = [_verses(texts[paths[language]], language) for language in (source, target)]
    if sides[0].keys() != sides[1].keys():
        raise ValueError(f"{source} and {target} have different verses")
    groups: list[tuple[list[str], list[str]]] = []
    joined = chapter = 0
    for place in sides[0]:
        a, b = (side[place] for side in sides)
        if place[0] == chapter and (a == groups[-1][0][-1] or b == groups[-1][1][-1]):
            joined += 1
            for text, group in zip((a, b), groups[-1], strict=True):
                if text != group[-1]:
                    group.append(text)
        else:
            groups.append(([a], [b]))
        chapter = place[0]
    pairs = [(" ".join(a), " ".join(b)) for a, b in groups]
    once = list(dict.fromkeys(pairs))
    files = {}
    for part in PARTS:
        chosen = [pair for pair in once if part_of(pair[0]) == part]
        for side, language in enumerate((source, target)):
            files[f"{part}.{language}"] = File.of_lines(pair[side] for pair in chosen)
    return Conversion(
        files,
        licence=texts["LICENSE.txt"],
        left_out={"duplicate pairs": len(pairs) - len(once)},
        changed={"verses joined to the one before, with which they share a translation": joined},
    )


def _verses(text: str, language: str) -> dict[tuple[int, int], str]:
    """(chapter, verse) → text, with single spaces and no line breaks."""
    key = "text" if language == "ar" else "translation"
    verses = {}
    for chapter in json.loads(text):
        for verse in chapter["verses"]:
            place = chapter["id"], verse["id"]
            verses[place] = " ".join(verse[key].split())
            if not verses[place]:
                raise ValueError(f"verse {place[0]}:{place[1]} is empty in {language}")
    return verses


QURAN = Corpus(
    name="quran",
    title="Quran, two of eleven languages side by side (--pair)",
    release=Release(
        "npm",
        "quran-json",
        "3.1.2",
        megabytes=23,
        licence="CC BY 4.0, says the package; the translations are their translators', whom its README names: "
        "ask them before commercial use",
    ),
    unit="pairs",
    done="One verse per line, the same line in both files; not tokenised, single spaces. Of ten pairs, eight are in "
    "train, one in dev, one in test, by a hash of the first language's text.",
    command="carousel train translate {out}/train.{source} {out}/train.{target} "
    "--dev {out}/dev.{source} {out}/dev.{target} --out run",
    convert=convert,
    languages=LANGUAGES,
)
