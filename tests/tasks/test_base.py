"""A task that is defined outside the package: by the command line and by Python it trains, resumes, loads, predicts."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("own_task.py")
NUMBERS = [[round(0.1 * (k + t), 1) for t in range(6)] for k in range(8)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sensor")
    (folder / "train.txt").write_text("".join(" ".join(map(str, row)) + "\n" for row in NUMBERS))
    shutil.copy(FILE, folder / "own_task.py")
    return folder


def command(place, *args, **options):
    call = [sys.executable, "-m", "carousel.cli.main", *map(str, args)]
    return subprocess.run(call, cwd=place, capture_output=True, text=True, timeout=300, **options)


def python(place, code):
    return subprocess.run([sys.executable, "-c", code], cwd=place, capture_output=True, text=True, timeout=300)


TRAIN = ["train", "own_task.py:Sensor", "train.txt", "--dev", "train.txt", "--epochs", "3", "--threads", "1"]


@pytest.fixture(scope="module")
def whole(place):
    done = command(place, *TRAIN, "--out", "whole")
    assert (done.returncode, done.stdout) == (0, "whole: done; look at whole/report.html\n"), done.stderr
    return place / "whole"


@pytest.mark.slow
def test_the_command_line_predicts_and_evaluates(place, whole):
    (place / "some.txt").write_text("0.1 0.2 0.3\n")
    told = command(place, "predict", "whole", "some.txt", "--task", "own_task.py:Sensor")
    assert told.returncode == 0 and told.stdout.splitlines()[0] == "next"
    assert float(told.stdout.splitlines()[1])
    told = command(place, "eval", "whole", "train.txt", "--task", "own_task.py:Sensor")
    assert told.returncode == 0 and told.stdout.startswith("error ")


@pytest.mark.slow
def test_a_run_alone_executes_nothing(place, whole):
    told = command(place, "predict", "whole", "train.txt")
    assert told.returncode == 1 and len(told.stderr.splitlines()) == 1
    assert "a run of the task 'sensor', which is not known here; give --task FILE.py:CLASS" in told.stderr


@pytest.mark.slow
def test_killed_and_resumed(place, whole):
    slow = (
        f"import time, sys; sys.path.insert(0, {str(place)!r})\nimport own_task\nfrom carousel.cli.main import main\n"
    )
    slow += "loss = own_task.SensorNetwork.loss\n"
    slow += "own_task.SensorNetwork.loss = lambda self, batch: (time.sleep(0.2), loss(self, batch))[1]\n"
    slow += f"main({[*TRAIN, '--checkpoint-minutes', '0', '--out', 'killed']!r})"
    slow = slow.replace("own_task.py:Sensor", "sensor")
    process = subprocess.Popen([sys.executable, "-c", slow], cwd=place, stderr=subprocess.DEVNULL)
    kept = place / "killed" / "checkpoints"
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and not (kept.exists() and any(kept.glob("*.safetensors"))):
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (place / "killed" / "result.json").exists()
    done = command(place, "train", "own_task.py:Sensor", "--out", "killed", "--resume", "--quiet")
    assert (done.returncode, done.stdout) == (0, "killed\n"), done.stderr
    assert (place / "killed" / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert (place / "killed" / "metrics.csv").read_text() == (whole / "metrics.csv").read_text()


@pytest.mark.slow
def test_python(place, whole):
    code = f"""
import carousel
from own_task import Sensor
rows = {NUMBERS!r}
model = carousel.train(Sensor, rows, dev=rows, out="python", epochs=3, threads=1, quiet=True)
assert open("python/model.safetensors", "rb").read() == open("whole/model.safetensors", "rb").read()
again = carousel.load("whole", tasks=[Sensor])
assert again.task is Sensor
assert list(again.predict_lines(["0.1 0.2"])) == list(model.predict_lines(["0.1 0.2"]))
assert carousel.evaluate("whole", rows) == carousel.evaluate(model, "train.txt")
"""
    done = python(place, code)
    assert done.returncode == 0, done.stderr
    done = python(place, 'import carousel; carousel.load("whole")')
    assert "RunError" in done.stderr and "import its module first" in done.stderr
