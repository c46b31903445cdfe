"""What each process of test_distributed.py does: train every task on tiny data. `python share_work.py FOLDER NAME…`"""

import sys
from pathlib import Path
from unittest.mock import patch

import carousel
from carousel.tasks.lm import network

SENTENCES = [
    f"{a} {b} {c}" for a in ("red", "blue") for b in ("cat", "dog", "hen") for c in ("sat", "ran", "slept here")
]
PLAIN = {
    "epochs": 2, "dropout": 0.0, "average": 0.0, "batch_size": 5, "baseline": False, "dev_split": "none",
    "optimizer": "sgd", "lr": 0.1,  # adaptive optimizers amplify rounding where a gradient is almost zero
}  # fmt: skip
WORDS = {**PLAIN, "hidden": 6, "embedding": 5, "word_dropout": 0.0}
TASKS = {
    "lm": ("lm", SENTENCES, {**PLAIN, "hidden": 6, "embedding": 6}),
    "running": ("lm", SENTENCES,
                {**PLAIN, "hidden": 6, "embedding": 6, "layout": "running", "bptt": 7, "batch_size": 3}),
    "classify": ("classify", [(text, text.split()[0]) for text in SENTENCES], {**WORDS, "linear": False}),
    "encode": ("encode", [(text, text[::-1], float(k % 4)) for k, text in enumerate(SENTENCES)], WORDS),
    "translate": ("translate", [(text, text.upper()) for text in SENTENCES], {**PLAIN, "hidden": 6, "embedding": 5}),
    "tree": ("tree", [f"(1 (0 {text.split()[0]}) (1 {text.split()[1]}))" for text in SENTENCES],
             {**PLAIN, "hidden": 6, "embedding": 5, "word_dropout": 0.0}),
    "forecast": ("forecast", [float((k * k) % 17) for k in range(60)],
                 {"epochs": 2, "dropout": 0.0, "average": 0.0, "batch_size": 5, "baseline": False, "optimizer": "sgd",
                  "lr": 0.1, "hidden": 6, "horizon": 2, "context": 5, "season": 4, "linear": False}),
}  # fmt: skip


def train(folder, names, **options):
    with patch.object(network, "RESTARTS", 0.0):  # drawn by each process for itself, as dropout is
        for name in names:
            task, data, settings = TASKS[name]
            carousel.train(task, data, out=Path(folder, name), quiet=True, **settings, **options)


if __name__ == "__main__":
    train(sys.argv[1], sys.argv[2:])
