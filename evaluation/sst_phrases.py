"""The phrases of the Stanford Sentiment Treebank as a table to train a classifier on.

    python evaluation/sst_phrases.py trees/train.txt > phrases.tsv
    carousel train classify train.tsv --extra phrases.tsv --dev dev.tsv --out run

The trees are in Penn brackets with a label from 0 (very negative) to 4 (very positive) at every node. Each phrase is
written once, with 0 for the labels 0 and 1, and 1 for 3 and 4; neutral ones are left out. Words are spelt as in the
usual SST-2 files: lower case, no accents, and only letters, digits and , ! ? ' ` left. Give the trees of the training
split alone: phrases of dev or test sentences would tell the model what it is tested on.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

CLASSES = {"0": "0", "1": "0", "3": "1", "4": "1"}


def nodes(tree: str) -> Iterator[tuple[str, str]]:
    """The label and the text of every node.

    >>> list(nodes("(3 (2 It) (4 (2 's) (4 lovely)))"))
    [('2', 'It'), ('2', "'s"), ('4', 'lovely'), ('4', "'s lovely"), ('3', "It 's lovely")]
    """
    words: list[str] = []
    open_nodes: list[tuple[str, int]] = []  # their labels, and where their words begin
    for label, word, _ in re.findall(r"\((\S+)|([^\s()]+)|(\))", tree):
        if label:
            open_nodes.append((label, len(words)))
        elif word:
            words.append(word)
        else:
            label, start = open_nodes.pop()
            yield label, " ".join(words[start:])


def spelt(text: str) -> str:
    """`text` as the SST-2 files spell it.

    >>> spelt("Jean-Claud 's clichés ... -LRB- 9\\\\/11 -RRB- .")
    "jean claud 's cliches lrb 9 11 rrb"
    """
    plain = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return " ".join(re.sub(r"[^a-z0-9,!?'`]", " ", plain.lower()).split())


def main(path: Path) -> None:
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if line.count("(") != line.count(")"):
            sys.exit(f"{path}:{number}: brackets are not in pairs")
        for label, text in nodes(line):
            found[spelt(text)][CLASSES.get(label, "")] += 1
    for text, labels in found.items():
        label = max(sorted(labels), key=labels.__getitem__)
        if text and label:
            print(f"{text}\t{label}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
