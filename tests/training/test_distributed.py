"""Several processes that share each batch give the run that one process gives."""

import os
import subprocess
import sys
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from carousel.data import LineBatches, Lines, RunningText, StreamBatches, Vocabulary, tokenize
from carousel.errors import ArgumentError, RunError
from carousel.training import distributed

from .share_work import TASKS, train


def launch(script, *arguments, processes=2):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    return subprocess.run([*command, script, *arguments], env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Each task trained by one process and by two."""
    folder = tmp_path_factory.mktemp("runs")
    ended = launch(Path(__file__).with_name("share_work.py"), folder / "two", *TASKS)
    assert ended.returncode == 0, ended.stderr
    train(folder / "one", TASKS)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_two_processes_give_the_weights_of_one(runs, name):
    one, two = (load_file(runs / count / name / "model.safetensors") for count in ("one", "two"))
    assert one.keys() == two.keys()
    for key in one:
        torch.testing.assert_close(one[key], two[key], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_one_process_writes(runs):
    names = {path.name for path in (runs / "two" / "lm").iterdir()}
    assert names == {path.name for path in (runs / "one" / "lm").iterdir()}
    rows = [(runs / count / "lm" / "metrics.csv").read_text().count("\n") for count in ("one", "two")]
    assert rows[0] == rows[1]


@pytest.mark.slow
def test_another_number_of_processes_is_refused(runs):
    with pytest.raises(RunError, match="was trained by 2 processes and cannot be resumed by 1 process"):
        import carousel

        carousel.train("lm", out=runs / "two" / "lm", resume=True, epochs=3)


@pytest.fixture
def text(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("".join(f"{'word ' * (k % 5 + 1)}{k}\n" for k in range(23)))
    return file


@pytest.mark.parametrize("size", [2, 3, 8])
def test_parts_of_batches_are_the_batches(text, tmp_path, size):
    """Together the processes read every line of every batch once, in as many batches."""
    store = tokenize(Lines(text), Vocabulary.train(Lines(text)), tmp_path)
    batches = LineBatches(store, sequences=5, seed=3)
    parts = [list(LineBatches(store, sequences=5, seed=3).share(k, size)) for k in range(size)]
    for index, batch in enumerate(batches):
        counted = [part[index][0] for part in parts if part[index][1]]
        assert sorted(row for one in counted for row in one.rows.tolist()) == sorted(batch.rows.tolist())
        assert sum(one.tokens for one in counted) == batch.tokens


@pytest.mark.parametrize("size", [2, 5])
def test_streams_are_divided(text, tmp_path, size):
    """Each process has the same streams in every batch, so that it can carry their state."""
    source = RunningText(text)
    store = tokenize(source, Vocabulary.train(source), tmp_path)
    batches = StreamBatches(store, streams=4, bptt=6)
    parts = [list(StreamBatches(store, streams=4, bptt=6).share(k, size)) for k in range(size)]
    for index, batch in enumerate(batches):
        for rank, part in enumerate(parts):
            one, counts = part[index]
            assert one.rows.tolist() == part[0][0].rows.tolist() and one.reset == batch.reset
            np.testing.assert_array_equal(one.inputs, batch.inputs[:, one.rows])
            assert counts == (rank < 4)


def test_batches_of_ones_own_must_be_divisible(monkeypatch):
    monkeypatch.setattr(distributed, "size", lambda: 2)
    with pytest.raises(ArgumentError, match="list has no method `share`"):
        distributed.share([1, 2])


def test_alone_nothing_is_shared():
    assert distributed.total([1.5, 2.0]) == [1.5, 2.0]
    batches = [1, 2]
    assert distributed.share(batches) is batches
    distributed.ready("data")


def test_lost_contact_is_one_line(monkeypatch):
    monkeypatch.setattr(distributed, "_store", {"any": "store"})
    monkeypatch.setattr(distributed, "_failure", lambda: "")
    with pytest.raises(RunError, match="another process was lost"), distributed.contact("resume them"):
        raise RuntimeError("[gloo/transport/tcp/pair.cc] Connection closed by peer")
    with pytest.raises(RuntimeError, match="out of range"), distributed.contact("resume them"):
        raise RuntimeError("index out of range")


def test_a_store_that_does_not_answer(monkeypatch):
    """As after a network failure: its calls wait for ever, and the process should still end with a message."""
    monkeypatch.setattr(distributed, "ANSWER", 0.05)
    silent = SimpleNamespace(check=lambda keys: Event().wait())
    monkeypatch.setattr(distributed, "_store", silent)
    assert distributed._failure() == "stopped: contact with process 0 was lost"
