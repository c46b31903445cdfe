"""Programs that others wrote, as they are and after `carousel.patch()`: the same results, in how much time?

    python evaluation/programs/run.py --venv /tmp/programs
    python evaluation/programs/run.py --venv /tmp/programs flair stanza

Makes a virtual environment, installs each program from PyPI beside torch 2.13.0 and this package, runs a driver of it
(`drivers/`, a few steps of training or inference each) in processes of its own, and prints a Markdown table: the time
of a step, and the largest difference between the numbers that the steps returned, relative to the largest of them.
Where a program amplifies rounding, torch is as far from itself, once with oneDNN and once without: `torch itself`.
What cannot be installed is listed below the table.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
TORCH = "torch==2.13.0"
TOGETHER = ["huggingface-hub<1", "datasets<4"]  # what flair and pytorch-forecasting need to run in one environment
TOLERANCE = 1e-5


def constant(name: str, path: Path) -> str:
    """The string that the driver at `path` assigns to `name`; drivers import what this environment does not have."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return str(ast.literal_eval(node.value))
    raise SystemExit(f"{path} has no {name}")


def install(venv: Path, packages: list[str]) -> str:
    """Install packages; returns what pip wrote last, or "" if it went well."""
    command = [str(venv / "bin/pip"), "install", "-q", "--prefer-binary", *packages, TORCH, *TOGETHER]
    done = subprocess.run(command, capture_output=True, text=True)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["pip failed"])[-1]


def measure(python: Path, program: str, mode: str, options: list[str]) -> dict[str, object]:
    command = [str(python), "measure.py", program, mode, *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE)
    if done.returncode != 0:
        return {"error": (done.stderr.strip().splitlines() or ["failed"])[-1]}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def difference(a: list[float], b: list[float]) -> float:
    """The largest difference, relative to the largest number if that is above 1."""
    if len(a) != len(b):
        return float("inf")
    return max((abs(x - y) for x, y in zip(a, b, strict=True)), default=0.0) / max(1.0, *map(abs, a))


def row(python: Path, path: Path, options: list[str], repeat: int) -> str:
    """A line of the table. Modes alternate, and the best of `repeat` runs counts: other work may slow some of them."""
    name, about = path.stem, constant("ABOUT", path)
    best: dict[str, dict[str, object]] = {}
    for _ in range(repeat):
        for mode in ("torch", "carousel"):
            run = measure(python, name, mode, options)
            if "error" in run:
                return f"| {constant('PACKAGE', path)} | {about} | {mode}: {run['error']} | | | | |"
            if mode not in best or run["seconds"] < best[mode]["seconds"]:  # type: ignore[operator]
                best[mode] = run
    plain, ours = best["torch"], best["carousel"]
    other = measure(python, name, "other", options)
    away = difference(plain["results"], ours["results"])  # type: ignore[arg-type]
    itself = difference(plain["results"], other["results"]) if "error" not in other else float("nan")  # type: ignore[arg-type]
    before, after = 1e3 * plain["seconds"], 1e3 * ours["seconds"]  # type: ignore[operator]
    verdict = "" if away <= max(TOLERANCE, 2 * itself) else " differs"
    columns = (f"{before:.1f}", f"{after:.1f}", f"{before / after:.2f}×", f"{away:.1e}{verdict}", f"{itself:.1e}")
    return f"| {constant('PACKAGE', path)} | {about} | {' | '.join(columns)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", help="names of drivers; default: all")
    parser.add_argument("--venv", type=Path, required=True, help="the environment, made if it is not there")
    parser.add_argument("--no-install", action="store_true", help="the environment has everything already")
    parser.add_argument("--steps", default="6")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--repeat", type=int, default=1)
    given = parser.parse_args()
    paths = {path.stem: path for path in sorted((HERE / "drivers").glob("[a-z]*.py"))}
    for name in given.programs:
        if name not in paths:
            raise SystemExit(f"unknown program {name!r}; there are {', '.join(paths)}")
    python = given.venv / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(given.venv)], check=True)
    failed = {}
    if not given.no_install and (problem := install(given.venv, [str(ROOT)])):
        raise SystemExit(f"cannot install this package: {problem}")
    print("| program | what runs | torch, ms | Carousel, ms | speedup | difference | torch itself |")
    print("|---|---|---|---|---|---|---|")
    for name in given.programs or paths:
        package = constant("PACKAGE", paths[name])
        if not given.no_install and (problem := install(given.venv, [package])):
            failed[package] = problem
            continue
        print(row(python, paths[name], ["--steps", given.steps, "--threads", given.threads], given.repeat), flush=True)
    for package, problem in failed.items():
        print(f"\nnot installed: {package} ({problem})")


if __name__ == "__main__":
    main()
