"""The six kinds of attention, and none, on one small budget: the same pairs, sizes, epochs and seed for each.

    python evaluation/attentions.py DATA --out attentions

DATA is a directory with train.en, train.de, dev.en and dev.de, such as Multi30k; `--source` and `--target` name other
endings. Each kind is trained on the first 10,000 pairs for 6 epochs, in some minutes, and measured by BLEU of the dev
set, by a beam of 5. The table is printed, and written to attentions.json; runs that are there already are not trained
again.
"""

from __future__ import annotations

import argparse
import json
from itertools import islice
from pathlib import Path

import carousel
from carousel.files import replace_text_file
from carousel.networks.attention import Attention
from carousel.tasks.translate.settings import TranslateSettings
from carousel.tasks.translate.task import Translate
from carousel.training import Run, trainer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("attentions"))
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    sides = given.source, given.target
    for side in sides:
        with (
            (given.data / f"train.{side}").open(encoding="utf-8") as file,
            replace_text_file(given.out / f"train.{side}") as to,
        ):
            to.writelines(islice(file, given.pairs))
    train, dev = (tuple(folder / f"{part}.{side}" for side in sides)
                  for folder, part in ((given.out, "train"), (given.data, "dev")))  # fmt: skip
    rows = []
    for kind in (*Attention.names, "none"):
        settings = TranslateSettings(
            train=train, dev=dev, attention=kind, tokens="word", min_frequency=2, bleu_tokenize="none", embedding=128,
            hidden=given.hidden, dropout=0.2, optimizer="adamw", lr=0.003, schedule="cosine", warmup=0.05,
            epochs=given.epochs, seed=given.seed, threads=given.threads,
        )  # fmt: skip
        folder = given.out / kind
        result = Run(folder).result if folder.exists() else None
        if result is None:
            trainer.train(Translate, settings, folder, resume=folder.exists(), command=["attentions.py"])
            result = Run(folder).result
        assert result is not None
        found = carousel.load(folder).evaluate(*dev)
        row = {"attention": kind, "bleu": found["bleu"], "chrf": found["chrf"], "minutes": result["minutes"],
               "parameters": result["parameters"], "signature": found["bleu_signature"]}  # fmt: skip
        rows.append(row)
        print(f"| {kind} | {row['bleu']:.1f} | {row['chrf']:.1f} | {row['minutes']:.1f} |", flush=True)
    print("\n| attention | BLEU | chrF | minutes |\n|---|---|---|---|")
    for row in sorted(rows, key=lambda row: -row["bleu"]):
        print(f"| {row['attention']} | {row['bleu']:.1f} | {row['chrf']:.1f} | {row['minutes']:.1f} |")
    with replace_text_file(given.out / "attentions.json") as file:
        file.write(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
