"""Train on two hosts that are network namespaces of this machine, joined by a virtual link; needs root and `ip`.

    python evaluation/two_hosts.py FOLDER            equality with one process, and twice the same bits; --tasks NAME…
    python evaluation/two_hosts.py FOLDER --faults   a process and a host killed, the link cut for 30 s and for good,
                                                     a full disk

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
from functools import partial
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


def wait(processes, seconds=900):
    """The exit codes of both hosts, once they have ended; None for one that has not, which is killed."""
    end = time.time() + seconds
    while time.time() < end and any(process.poll() is None for process in processes):
        time.sleep(0.2)
    codes = [process.poll() for process in processes]
    for name, process in zip(HOSTS, processes, strict=True):
        if process.poll() is None:
            kill_host(name)
        process.wait()
    return codes


def processes_of(name):
    return [int(pid) for pid in subprocess.run(["ip", "netns", "pids", name], capture_output=True).stdout.split()]


def kill_host(name):
    for pid in processes_of(name):
        os.kill(pid, signal.SIGKILL)


def kill_rank(name):
    """Kill the process that trains on a host, and not the torchrun that started it."""
    for pid in processes_of(name):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"carousel" in words and b"torch.distributed.run" not in words:
            os.kill(pid, signal.SIGKILL)


def difference(one, two):
    first, second = (load_file(run / "model.safetensors") for run in (one, two))
    return max(float((first[key].double() - second[key].double()).abs().max()) for key in first)


def equality(folder, tasks):
    runs = folder / "runs"
    for task in tasks:
        subprocess.run(
            [sys.executable, "-m", "carousel", "train", *task_words(task, runs / f"{task}-one"), "--quiet"],
            cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        codes = [wait(start(task, folder, runs / f"{task}-{k}", "--quiet")) for k in "ab"]
        if codes != [[0, 0], [0, 0]]:
            raise SystemExit(f"{task}: exit {codes}; {last_line(folder, f'{task}-a', 0)}")
        first, second = ((runs / f"{task}-{k}" / "model.safetensors").read_bytes() for k in "ab")
        apart = difference(runs / f"{task}-one", runs / f"{task}-a")
        same = first == second
        print(f"{task:10} largest difference from one process {apart:.2e}  twice the same bits: {same}", flush=True)


LONG = ("--set", "epochs=40", "--set", "checkpoint_minutes=0.02")


def kill(folder, name, end):
    """One process, or one host, is killed; then all are resumed."""
    runs = folder / "runs"
    wait(start("lm", folder, runs / "whole", *LONG))
    processes = start("lm", folder, runs / name, *LONG)
    until(runs / name / "checkpoints")
    begun = time.time()
    end("carousel-b")
    say(folder, name, f"one {name} killed", begun, wait(processes))
    wait(start("lm", folder, runs / name, "--resume"))
    same = (runs / "whole/model.safetensors").read_bytes() == (runs / name / "model.safetensors").read_bytes()
    print(f"resumed: the weights of the uninterrupted run: {same}", flush=True)


def cut_link(folder, name, seconds=None):
    """The link is cut, for some seconds or for good."""
    out = folder / "runs" / name
    processes = start("lm", folder, out, *LONG)
    until(out / "checkpoints")
    begun = time.time()
    run("ip", "-n", "carousel-a", "link", "set", "veth-a", "down")
    if seconds:
        time.sleep(seconds)
        run("ip", "-n", "carousel-a", "link", "set", "veth-a", "up")
    codes = wait(processes, 300)
    run("ip", "-n", "carousel-a", "link", "set", "veth-a", "up")
    say(folder, name, f"link cut for {f'{seconds} s' if seconds else 'good'}", begun, codes)


def fill_disk(folder, name):
    begun = time.time()
    codes = wait(start("lm", folder, folder / "runs" / name, *LONG, limit="300k"))
    say(folder, name, "disk full on the first host", begun, codes)


FAULTS = {
    "rank": partial(kill, end=kill_rank),
    "host": partial(kill, end=kill_host),
    "cut-30": partial(cut_link, seconds=30),
    "cut": cut_link,
    "full": fill_disk,
}


def say(folder, name, what, begun, codes):
    print(f"{what}: exit {codes} after {time.time() - begun:.0f} s", flush=True)
    for rank in range(2):
        print(f"    host {rank}: {last_line(folder, name, rank)}", flush=True)


def until(path, seconds=120):
    """Wait for the first checkpoint."""
    end = time.time() + seconds
    while not path.exists() or not any(path.iterdir()):
        if time.time() > end:
            raise SystemExit(f"{path}: no checkpoint after {seconds} s")
        time.sleep(0.2)


def last_line(folder, name, rank):
    lines = (folder / f"{name}.{rank}.log").read_text().splitlines()
    return next((line for line in reversed(lines) if line.startswith("error")), lines[-1] if lines else "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--faults", nargs="*", choices=FAULTS)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    given = parser.parse_args()
    folder = given.folder.resolve()
    shutil.rmtree(folder / "runs", ignore_errors=True)
    (folder / "runs").mkdir(parents=True)
    write_data(folder)
    link()
    try:
        if given.faults is None:
            equality(folder, given.tasks)
        for name in FAULTS if given.faults == [] else given.faults or ():
            FAULTS[name](folder, name)
    finally:
        unlink()
