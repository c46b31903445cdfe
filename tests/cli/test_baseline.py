"""`carousel baseline`: a table or JSON, and the options of the task's data."""

import json
import re
import subprocess
import sys

import pytest


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    (tmp_path / "train.tsv").write_text("red rose\tflower\noak\ttree\nred oak\ttree\ntall oak\ttree\na rose\tflower\n")
    (tmp_path / "dev.tsv").write_text("a red rose\tflower\nthe rose\tflower\nan oak\ttree\n")
    return tmp_path / "train.tsv", "--dev", tmp_path / "dev.tsv"


def test_as_a_table_and_as_json(carousel, files):
    code, out, _ = carousel("baseline", "classify", *files)
    assert code == 0 and "majority class" in out and "0.333" in out
    code, out, _ = carousel("baseline", "classify", *files, "--json")
    assert [one["value"] for one in json.loads(out)["results"]] == pytest.approx([1 / 3, 1.0])


def test_what_was_held_out_is_said(carousel, files, tmp_path):
    (tmp_path / "more.tsv").write_text("".join(f"a rose {k}\t{'flower' if k % 2 else 'tree'}\n" for k in range(60)))
    out = carousel("baseline", "classify", tmp_path / "more.tsv", "--dev-split", "0.2")[1]
    assert re.search(r"\nmeasured on what is held out: \d+ of 60 texts of .*more.tsv \(--dev-seed 0\)\n", out)
    assert "held out" not in carousel("baseline", "classify", *files)[1]


def test_tasks_without_baselines_are_not_listed():  # in a process of its own: commands stay registered
    done = subprocess.run([sys.executable, "-m", "carousel", "baseline", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "classify" in done.stdout and "translate" not in done.stdout


def test_options_are_those_about_data(carousel, files):
    code, out, _ = carousel("baseline", "classify", "--help")
    assert code == 0 and "--text-column" in out and "--hidden" not in out and "--batch-size" not in out
    code, _, err = carousel("baseline", "classify", *files, "--text-column", "9")
    assert code == 1 and len(err.splitlines()) == 1
