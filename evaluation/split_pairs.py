"""Split a TSV of pairs into train.tsv and dev.tsv that share no sentence, on either side.

    python evaluation/split_pairs.py en-tr.tsv --out en-tr

Collections such as Tatoeba have a sentence with several translations, and a translation of several sentences: lines
drawn at random would put much of what is asked into what is learned. Here a source text goes to dev or not by its hash,
with all its translations; then every pair is left out of train whose target dev has too.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

from carousel.files import replace_text_file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--share", type=float, default=0.03, help="of the source texts, for dev (0.03)")
    given = parser.parse_args()
    pairs = [tuple(line.split("\t")[:2]) for line in given.pairs.read_text("utf-8").splitlines() if "\t" in line]

    def chosen(source: str) -> bool:
        return int.from_bytes(hashlib.sha256(source.encode()).digest()[:8]) < given.share * 2**64

    dev = [pair for pair in pairs if chosen(pair[0])]
    asked = {target for _, target in dev}
    train = [pair for pair in pairs if not chosen(pair[0]) and pair[1] not in asked]
    given.out.mkdir(parents=True, exist_ok=True)
    for name, part in (("train", train), ("dev", dev)):
        with replace_text_file(given.out / f"{name}.tsv") as file:
            file.writelines("\t".join(pair) + "\n" for pair in part)
    print(f"train {len(train):,}, dev {len(dev):,}; {len(pairs) - len(train) - len(dev):,} left out")


if __name__ == "__main__":
    main()
