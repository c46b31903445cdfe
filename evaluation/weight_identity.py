"""Hashes of the weights that `carousel train` arrives at, to compare two versions of the code bit by bit.

    python evaluation/weight_identity.py > before.txt        # in one checkout
    python evaluation/weight_identity.py > after.txt         # in another, on the same machine
    diff before.txt after.txt && echo identical

One line for each task and set of options, on data made here; arguments choose some of them by name.
"""

import hashlib
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from safetensors.numpy import load_file

WORDS = ["sun", "moon", "river", "stone", "cloud", "bird", "night", "rain", "wind", "leaf", "snow", "hill"]
CALL = "from carousel.cli.main import main; main()"
COMMON = ["--epochs", "2", "--threads", "1", "--seed", "3"]
COMMANDS = {
    "lm": "lm text.txt --dev dev.txt --hidden 16 --embedding 8",
    "lm-words": "lm text.txt --dev dev.txt --tokens word --layout running --cell gru --bptt 7 --batch-size 4"
    " --hidden 16",
    "lm-bpe": "lm text.txt --dev dev.txt --tokens bpe --vocabulary-size 270 --cell peephole --hidden 16",
    "bilm": "bilm text.txt --dev dev.txt --hidden 16 --embedding 16",
    "classify": "classify labels.tsv --dev labels.tsv --hidden 16",
    "classify-bilm": "classify labels.tsv --dev labels.tsv --hidden 16 --embedder runs/bilm --pooling mean",
    "tag": "tag tags.conll --dev tags.conll --hidden 16",
    "tag-softmax": "tag tags.conll --dev tags.conll --hidden 16 --characters cnn --output crf",
    "encode": "encode scored.tsv --dev scored.tsv --hidden 16",
    "tree": "tree trees.txt --dev trees.txt --hidden 16",
    "translate": "translate text.txt reversed.txt --dev dev.txt dev-reversed.txt --hidden 16 --embedding 16",
    "forecast": "forecast series.csv --horizon 4 --season 12 --hidden 16",
}


def write_data(folder: Path) -> None:
    draw = random.Random(1)
    lines = [[draw.choice(WORDS) for _ in range(draw.randint(3, 8))] for _ in range(120)]

    def write(name: str, rows: list[str]) -> None:
        (folder / name).write_text("\n".join(rows) + "\n", "utf-8")

    text = [" ".join(line) for line in lines]
    write("text.txt", text[:100])
    write("dev.txt", text[100:])
    write("reversed.txt", [" ".join(reversed(line)).upper() for line in lines[:100]])
    write("dev-reversed.txt", [" ".join(reversed(line)).upper() for line in lines[100:]])
    write("labels.tsv", [f"{line}\t{'wet' if 'rain' in line or 'river' in line else 'dry'}" for line in text])
    tag = {"sun": "B-SKY", "moon": "B-SKY", "bird": "B-ANIMAL"}
    write("tags.conll", ["\n".join(f"{word} {tag.get(word, 'O')}" for word in line) + "\n" for line in lines])
    pairs = zip(lines[:60], lines[60:], strict=True)
    write("scored.tsv", [f"{' '.join(a)}\t{' '.join(b)}\t{len(set(a) & set(b))}" for a, b in pairs])
    write("trees.txt", [f"({int(a < b)} ({int(a < 'n')} {a}) ({int(b < 'n')} {b}))" for a, b, *_ in lines])
    values = [10 + 5 * ((i % 12) in (5, 6, 7)) + draw.random() for i in range(240)]
    rows = [f"{2000 + i // 12}-{i % 12 + 1:02d},{value:.3f}" for i, value in enumerate(values)]
    write("series.csv", ["month,x", *rows])


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_data(folder)
        for name, options in COMMANDS.items():
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            command = ["-c", CALL, "train", *options.split(), "--out", f"runs/{name}", *COMMON, "--quiet"]
            environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
            subprocess.run(
                [sys.executable, *command], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL
            )
            weights = load_file(folder / "runs" / name / "model.safetensors")
            total = hashlib.sha256()
            for key in sorted(weights):
                total.update(key.encode() + weights[key].tobytes())
            print(name, len(weights), total.hexdigest()[:16], flush=True)


if __name__ == "__main__":
    main()
