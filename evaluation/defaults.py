"""The plain command on every data set: dev results of several seeds beside the best baseline, as a table.

    python evaluation/defaults.py DATA --out DIR --seeds 0 1 2 [--only sst-2 products] [--vectors glove] [--preset best]

DATA has the folders named below, each with a train and a dev file. A run that is there already is not trained again;
one that was interrupted is resumed.
"""

from __future__ import annotations

import argparse
import math
import statistics
from pathlib import Path

import carousel
from carousel.ops import backend
from carousel.training import Run

# name → task, training file, dev file, options that only say what the data is, whether word vectors are of use
DATA = {
    "sst-2": ("classify", "classify/train.tsv", "classify/dev.tsv", {}, True),
    "products": ("classify", "products/train.tsv", "products/dev.tsv", {}, True),
    "subjectivity": ("classify", "subjectivity/train.tsv", "subjectivity/dev.tsv", {}, True),
    "trees": ("tree", "trees/train.txt", "trees/dev.txt", {}, True),
    "ewt": ("tag", "pos/train.conllu", "pos/dev.conllu", {}, True),
    "imst": ("tag", "pos-tr/train.conllu", "pos-tr/dev.conllu", {}, False),
    "wnut-17": ("tag", "ner/train.conll", "ner/dev.conll", {}, True),
    "disease": ("tag", "ner-disease/train.conll", "ner-disease/dev.conll", {}, True),
    "sick": ("encode", "pairs/train.tsv", "pairs/dev.tsv", {"label_column": "relatedness_score"}, True),
    "etth1": ("forecast", "series/ETTh1.csv", None, {"horizon": 24}, False),
    "multi30k": (
        "translate", ("translate/train.en", "translate/train.de"), ("translate/dev.en", "translate/dev.de"),
        {"bleu_tokenize": "none"}, False,
    ),
    "poems": ("lm", "poems/train.txt", "poems/dev.txt", {}, False),
    "ptb": ("lm", "ptb/train.txt", "ptb/dev.txt", {"layout": "sentences", "tokens": "word"}, False),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--vectors", help="word vectors, for the data sets that they are of use for")
    parser.add_argument("--preset", help="a preset instead of the defaults")
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    named = given.preset or "default"
    print(f"instruction set {backend.isa()}, preset {named}, {given.threads or 'all'} threads, seeds {given.seeds}")
    print("| data | metric | dev | best baseline | | minutes |\n|---|---|---|---|---|---|")
    for name in given.only:
        task, train, dev, options, worded = DATA[name]
        if given.vectors and not worded:
            continue
        options = {**options, **({"vectors": given.vectors} if given.vectors else {}), "threads": given.threads}
        runs = []
        for seed in given.seeds:
            parts = [name, given.vectors and Path(given.vectors).stem, given.preset, str(seed)]
            run = Run(given.out / "-".join(filter(None, parts)))
            if run.result is None:
                files = {"train": _under(given.data, train), "dev": _under(given.data, dev)}
                alone = {"baseline": seed == given.seeds[0]}  # they are the same for every seed
                begun = any((run.folder / "checkpoints").glob("*"))
                place = {"out": run.folder, "resume": begun, "force": not begun}
                preset = None if begun else given.preset
                carousel.train(task, **files, **place, preset=preset, seed=seed, quiet=True, **alone, **options)
            runs.append(run.result or {})
        print(_row(name, runs), flush=True)


def _under(folder: Path, files: str | tuple[str, ...] | None) -> Path | tuple[Path, ...] | None:
    if files is None:
        return None
    return folder / files if isinstance(files, str) else tuple(folder / file for file in files)


def _row(name: str, runs: list[dict]) -> str:
    metric = runs[0]["metric"]
    values = [run[f"dev_{metric}"] for run in runs]
    spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    mean, lower = statistics.mean(values), metric in ("mase", "perplexity")
    measured = [one for one in runs[0].get("baselines", []) if not math.isnan(one["value"])]
    best = (min if lower else max)(measured, key=lambda one: one["value"], default=None)
    beside, verdict = "", ""
    if best is not None:
        beside = f"{best['value']:.4f} ({best['name']})"
        verdict = "better" if (mean < best["value"]) == lower and mean != best["value"] else "not better"
    minutes = statistics.mean(run["minutes"] for run in runs)
    return f"| {name} | {metric} | {mean:.4f}{spread} | {beside} | {verdict} | {minutes:.1f} |"


if __name__ == "__main__":
    main()
