"""Files of sentences: plain text or columns, and bad ones."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from helpers.bilms import SMALL

import carousel


def options(given):
    return [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", value)]


def test_from_a_file_of_columns_on_the_command_line(tmp_path, command, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    file = tmp_path / "ud.conllu"
    rows = ["# a comment", "1-2\tdon't" + "\t_" * 8, "1\tDo" + "\t_" * 8, "2\tn't" + "\t_" * 8, ""]
    file.write_text("\n".join(rows * 5) + "\n")
    plain = tmp_path / "plain.txt"
    plain.write_text("Do n't\n" * 5)
    code, out, err = command("check", "bilm", file, "--json")
    assert (code, err) == (0, "")
    assert (json.loads(out)["train"]["lines"], json.loads(out)["train"]["tokens"]) == (5, 10)
    run = tmp_path / "run"
    code, _, err = command("train", "bilm", file, "--dev", plain, "--out", run, "--quiet", *options(SMALL))
    assert (code, err) == (0, "")
    found = [json.loads(command("eval", run, path, "--json")[1]) for path in (file, plain)]
    assert found[0]["perplexity"] == pytest.approx(found[1]["perplexity"])
    assert found[0]["words"] == 10
    code, out, err = command("embed", run, plain, "--out", tmp_path / "words.parquet")
    assert (code, err) == (0, "")
    assert out == f"{tmp_path / 'words.parquet'}: 10 vectors of 36 numbers\n"
    rows = pq.read_table(tmp_path / "words.parquet").to_pylist()
    assert [(row["line"], row["word"]) for row in rows[:3]] == [(1, "Do"), (1, "n't"), (2, "Do")]
    layers = carousel.load(run).embed("Do n't")
    np.testing.assert_allclose(rows[1]["vector"], np.concatenate([layer[1] for layer in layers]), rtol=1e-4, atol=1e-6)
    code, _, err = command("similar", run, plain, "--to", "Do")
    assert code == 1 and "is a run of bilm; carousel similar is for runs of encode" in err
    code, _, err = command("predict", run, plain)
    assert code == 1 and "does not predict; its commands are carousel eval RUN, carousel embed RUN" in err


def test_bad_files_leave_nothing(tmp_path, command):
    run = tmp_path / "run"
    for name, content, told in (
        ("blank.txt", b"\n \n", "all 2 lines are blank"),
        ("latin.txt", b"caf\xe9 noir\n", "1: byte 0xe9 at column 4 is not UTF-8"),
        ("short.conllu", b"1\tDo\n", "1: 2 columns with tabs between, where CoNLL-U has 10"),
        ("rare.txt", b"one two\n", "no word occurs 2 times or more"),
    ):
        (tmp_path / name).write_bytes(content)
        code, out, err = command("train", "bilm", tmp_path / name, "--out", run)
        assert (code, out, len(err.splitlines())) == (1, "", 1)
        assert name in err and told in err
        assert not run.exists()
