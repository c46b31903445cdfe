"""One program in one mode, in the environment that has it: prints what came out, and how long, as one line of JSON.

    python measure.py flair carousel --steps 6

`torch` is the program as it is, `carousel` the same after `carousel.patch()`, and `other` again torch without oneDNN:
how far torch is from itself.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import random
import statistics
import time
import warnings

import numpy as np
import torch


def flat(result: object) -> list[float]:
    """Numbers in whatever a step returns."""
    if isinstance(result, (tuple, list)):
        return [number for part in result for number in flat(part)]
    return [float(number) for number in torch.as_tensor(result).detach().flatten()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("mode", choices=["torch", "carousel", "other"])
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(given.threads)
    driver = importlib.import_module(f"drivers.{given.program}")
    if given.mode == "carousel":
        import carousel

        carousel.patch()
    if given.mode == "other":
        torch.backends.mkldnn.enabled = False
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    step = driver.prepare()
    results, seconds = [], []
    for _ in range(given.steps):
        start = time.perf_counter()
        result = step()
        seconds.append(time.perf_counter() - start)
        results += flat(result)
    steady = seconds[1:] or seconds  # the first one allocates and compiles
    print("\n" + json.dumps({"results": results, "seconds": statistics.median(steady)}))


if __name__ == "__main__":
    main()
