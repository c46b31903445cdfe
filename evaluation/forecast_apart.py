"""A forecaster on rows that chose nothing: neither its epoch nor the shares of its parts.

    python evaluation/forecast_apart.py SERIES.csv HORIZON [SEEDS] [OPTIONS …]

Trains by the plain command on the first four fifths of the rows, the last fifth of which is the dev set, and measures
the MASE of the last fifth of the file: of the model, of ridge regression (the autoregression as fitted) and of the
autoregression as trained, without the network; and the coverage of each interval of the model, its CRPS in the unit of
MASE, and the coverage of the bounds as learnt, before calibration. OPTIONS are settings, as key=value.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import yaml

import carousel


def main(path: Path, horizon: int, seeds: int, given: list[str]) -> None:
    head, *rows = [line for line in path.read_text("utf-8").splitlines() if line.strip()]
    first = int(0.8 * len(rows))  # of the rows to measure
    with tempfile.TemporaryDirectory() as name:
        train, test = Path(name) / "train.csv", Path(name) / "test.csv"
        train.write_text("\n".join([head, *rows[:first]]) + "\n", "utf-8")
        for seed in range(seeds):
            options = {"horizon": horizon, "seed": seed, "threads": 1, "baseline": False, "quiet": True}
            options |= {key: yaml.safe_load(value) for key, value in (pair.split("=", 1) for pair in given)}
            model = carousel.train("forecast", train, out=Path(name) / str(seed), report=False, **options)
            shares = model.network.shares
            test.write_text("\n".join([head, *rows[first - model.network.reach.compared :]]) + "\n", "utf-8")
            result = model.evaluate(test)
            stretch = model.network.stretch.clone()
            model.network.stretch.fill_(1)
            learnt = model.evaluate(test)["coverage"]
            model.network.stretch.copy_(stretch)
            own = result["mase"]
            shares[1] = 0
            trained = model.evaluate(test)["mase"]
            shares[0] = 0
            ridge = model.evaluate(test)["mase"]
            covered = ", ".join(
                f"{one['coverage']:.1%} of {one['nominal']:.0%}" for one in result["intervals"].values()
            )
            print(f"seed {seed}: model {own:.3f}, ridge {ridge:.3f}, linear {trained:.3f}; "
                  f"CRPS {result['scaled_crps']:.3f}; coverage {covered}; as learnt {learnt:.1%}",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 3, sys.argv[4:])
