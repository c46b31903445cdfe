"""Train on two hosts that are network namespaces of this machine, joined by a virtual link; needs root and `ip`.

    python evaluation/two_hosts.py FOLDER            equality with one process, and twice the same bits
    python evaluation/two_hosts.py FOLDER --faults   a killed process, the link cut for 30 s and for good, a full disk

The second host sees an empty directory in place of FOLDER/runs: nothing is shared but the network. Data is generated.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from safetensors.torch import load_file

HOSTS = {"carousel-a": "10.77.0.1", "carousel-b": "10.77.0.2"}
SETTINGS = ["--epochs", "2", "--dropout", "0", "--average", "0", "--no-baseline", "--batch-size", "16"]
TASKS = {
    "lm": ["train.txt", "--dev", "dev.txt", "--hidden", "64", "--embedding", "32"],
    "running": ["train.txt", "--dev", "dev.txt", "--hidden", "64", "--embedding", "32", "--layout", "running"],
    "tag": ["train.conll", "--dev", "dev.conll", "--hidden", "32", "--embedding", "16", "--word-dropout", "0"],
    "translate": ["train.src", "train.tgt", "--dev", "dev.src", "dev.tgt", "--hidden", "32", "--embedding", "16"],
    "forecast": ["series.csv", "--horizon", "4", "--hidden", "16", "--context", "8"],
}


def write_data(folder):
    draw = random.Random(0)
    words = ["".join(draw.choice("abcdefghij") for _ in range(draw.randint(2, 6))) for _ in range(60)]
    for part, count in (("train", 400), ("dev", 40)):
        lines = [[draw.choice(words) for _ in range(draw.randint(3, 12))] for _ in range(count)]
        text = "".join(" ".join(line) + "\n" for line in lines)
        (folder / f"{part}.txt").write_text(text)
        (folder / f"{part}.src").write_text(text)
        (folder / f"{part}.tgt").write_text("".join(" ".join(reversed(line)) + "\n" for line in lines))
        tagged = ("".join(f"{word}\t{'A' if len(word) % 2 else 'B'}\n" for word in line) + "\n" for line in lines)
        (folder / f"{part}.conll").write_text("".join(tagged))
    rows = "".join(f"{k},{k % 7 + draw.random():.3f}\n" for k in range(400))
    (folder / "series.csv").write_text("time,value\n" + rows)


def link():
    unlink()
    for name in HOSTS:
        run("ip", "netns", "add", name)
    run("ip", "link", "add", "veth-a", "netns", "carousel-a", "type", "veth", "peer", "veth-b", "netns", "carousel-b")
    for (name, address), device in zip(HOSTS.items(), ("veth-a", "veth-b"), strict=True):
        run("ip", "-n", name, "address", "add", f"{address}/24", "dev", device)
        for one in (device, "lo"):
            run("ip", "-n", name, "link", "set", one, "up")


def unlink():
    for name in HOSTS:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def run(*command):
    subprocess.run(command, check=True)


def start(task, folder, out, *more, limit=None):
    """The command on both hosts; the second has an empty directory in place of the runs."""
    words = task_words(task, out, *more)
    started = []
    for rank, (name, device) in enumerate(zip(HOSTS, ("veth-a", "veth-b"), strict=True)):
        torchrun = [
            sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1", "--node-rank",
            str(rank), "--master-addr", HOSTS["carousel-a"], "--master-port", "29555", "--no-python",
        ]  # fmt: skip
        command = " ".join([*torchrun, sys.executable, "-m", "carousel", "train", *words])
        apart = f"mount -t tmpfs none {folder / 'runs'} && " if rank else ""
        if limit and not rank:
            apart = f"mount -t tmpfs -o size={limit} none {folder / 'runs'} && "
        environment = {
            **os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": device, "TORCH_CPP_LOG_LEVEL": "ERROR",
        }  # fmt: skip
        log = (folder / f"{out.name}.{rank}.log").open("w")
        inside = ["ip", "netns", "exec", name, "unshare", "--mount", "sh", "-c", f"{apart}exec {command}"]
        started.append(
            subprocess.Popen(inside, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
        )
    return started


def task_words(task, out, *more):
    name = "lm" if task == "running" else task
    return [name, *TASKS[task], *SETTINGS, "--out", str(out), *more]


def wait(processes, seconds=600):
    end = time.time() + seconds
    for process in processes:
        process.wait(max(1, end - time.time()))
    return [process.returncode for process in processes]


def difference(one, two):
    first, second = (load_file(run / "model.safetensors") for run in (one, two))
    return max(float((first[key].double() - second[key].double()).abs().max()) for key in first)


def equality(folder):
    runs = folder / "runs"
    for task in TASKS:
        subprocess.run(
            [sys.executable, "-m", "carousel", "train", *task_words(task, runs / f"{task}-one"), "--quiet"],
            cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        codes = [wait(start(task, folder, runs / f"{task}-{k}", "--quiet")) for k in "ab"]
        first, second = ((runs / f"{task}-{k}" / "model.safetensors").read_bytes() for k in "ab")
        apart = difference(runs / f"{task}-one", runs / f"{task}-a")
        print(f"{task:10} exit {codes}  largest difference from one process {apart:.2e}", end="  ")
        print(f"twice the same bits: {first == second}")


def faults(folder):
    runs = folder / "runs"
    long = ("--set", "epochs=40", "--set", "checkpoint_minutes=0.02")
    wait(start("lm", folder, runs / "whole", *long))

    processes = start("lm", folder, runs / "killed", *long)
    until(runs / "killed" / "checkpoints")
    begun = time.time()
    os.killpg(processes[1].pid, signal.SIGKILL)
    codes = wait(processes)
    print(f"one host killed: exit {codes} after {time.time() - begun:.0f} s; {last_line(folder, 'killed', 0)}")
    wait(start("lm", folder, runs / "killed", "--resume"))
    same = (runs / "whole/model.safetensors").read_bytes() == (runs / "killed/model.safetensors").read_bytes()
    print(f"resumed: the weights of the uninterrupted run: {same}")

    for seconds in (30, None):
        processes = start("lm", folder, runs / f"cut-{seconds}", *long)
        until(runs / f"cut-{seconds}" / "checkpoints")
        begun = time.time()
        run("ip", "-n", "carousel-a", "link", "set", "veth-a", "down")
        if seconds:
            time.sleep(seconds)
            run("ip", "-n", "carousel-a", "link", "set", "veth-a", "up")
        codes = wait(processes)
        run("ip", "-n", "carousel-a", "link", "set", "veth-a", "up")
        print(f"link cut for {seconds or 'good'}: exit {codes} after {time.time() - begun:.0f} s; ", end="")
        print(last_line(folder, f"cut-{seconds}", 0))

    codes = wait(start("lm", folder, runs / "full", *long, limit="300k"))
    print(f"disk full on the first host: exit {codes}; {last_line(folder, 'full', 0)}")


def until(path):
    while not path.exists() or not any(path.iterdir()):
        time.sleep(0.2)


def last_line(folder, name, rank):
    lines = (folder / f"{name}.{rank}.log").read_text().splitlines()
    return next((line for line in reversed(lines) if line.startswith("error")), lines[-1] if lines else "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--faults", action="store_true")
    given = parser.parse_args()
    folder = given.folder.resolve()
    shutil.rmtree(folder / "runs", ignore_errors=True)
    (folder / "runs").mkdir(parents=True)
    write_data(folder)
    link()
    try:
        (faults if given.faults else equality)(folder)
    finally:
        unlink()
