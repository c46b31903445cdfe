"""Baselines in a run: fitted on the same split, kept, compared with the model; they change nothing of the training."""

import ast
import builtins
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.tiny import Killed, fit, kill_at, language, outcome
from pydantic import TypeAdapter

import carousel
from carousel.cli.main import main
from carousel.errors import ArgumentError, SettingsError
from carousel.tasks import find
from carousel.training import Run, trainer
from carousel.training.baselines import LIBRARIES, Baseline, Baselines, suggestions
from carousel.training.progress import Bar
from carousel.training.trainer import compare


def pairs(n, order):
    """Texts of the words a and b, whose label is the order of the two; words and their counts say nothing of it."""
    draw = np.random.default_rng(order)
    rows = []
    for k in range(n):
        filler = [f"w{draw.integers(5)}" for _ in range(8)]
        at, then = sorted(draw.choice(9, 2, replace=False))
        first, second = ("aa", "bb") if k % 2 else ("bb", "aa")
        rows.append((" ".join([*filler[:at], first, *filler[at:then], second, *filler[then:]]), f"{first} first"))
    return rows


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Training and dev tables of two classes that single words tell apart; caches stay inside."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    rows = [("good film", "pos"), ("bad film", "neg"), ("good play", "pos"), ("bad play", "neg"), ("good", "pos")] * 3
    dev = [("bad", "neg"), ("good", "pos"), ("a bad film", "neg"), ("bad play", "neg")]
    for name, some in (("train", rows), ("dev", dev)):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in some))
    return tmp_path / "train.tsv", tmp_path / "dev.tsv"


def test_a_run_keeps_its_baselines_and_says_them(tables, tmp_path, with_baselines, capfd):
    train, dev = tables
    carousel.train(
        "classify",
        train,
        dev=dev,
        out=tmp_path / "run",
        linear=False,
        hidden=4,
        embedding=4,
        lr=1e-9,
        epochs=1,
        threads=1,
    )
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    majority, linear = result["baselines"]
    assert (majority["name"], majority["value"]) == ("majority class", 1 / 4)  # pos is more frequent in training
    assert linear["value"] == 1.0
    best = max(majority["value"], linear["value"])
    assert result["beats_baselines"] is (result["dev_accuracy"] > best) is False
    err = capfd.readouterr().err
    assert "baseline majority class: dev accuracy 0.25" in err
    assert f"{result['verdict']}; try " in err
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "<h2>Baselines</h2>" in page and linear["name"] in page and "does not beat its baseline" in page


def test_a_model_that_is_better_is_not_flagged(tmp_path, monkeypatch, with_baselines, capfd):
    """Word order alone decides, which n-grams hardly see and a recurrent network reads."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    small = {"hidden": 16, "embedding": 8, "epochs": 12, "lr": 0.02, "dropout": 0.0, "word_dropout": 0.0}
    carousel.train(
        "classify", pairs(400, 0), dev=pairs(100, 1), out=tmp_path / "run", pooling="last", threads=1, **small
    )
    result = Run(tmp_path / "run").result
    assert result["dev_accuracy"] > 0.9 > max(one["value"] for one in result["baselines"])
    assert result["beats_baselines"] is True and "suggestions" not in result
    assert "is better than the baseline" in result["verdict"]
    err = capfd.readouterr().err
    assert result["verdict"] in err and "try " not in err
    assert "does not beat" not in (tmp_path / "run" / "report.html").read_text("utf-8")


def test_verdicts_follow_the_numbers_and_the_direction():
    up = Baselines("accuracy", False, [Baseline("a", 0.5, 0.1), Baseline("b", 0.75, 0.2)])
    down = Baselines("perplexity", True, [Baseline("a", 50.0, 0.1), Baseline("b", 75.0, 0.2)])
    assert (up.best.name, down.best.name) == ("b", "a")
    assert [up.beaten_by(value) for value in (0.8, 0.75, 0.6, float("nan"), None)] == [True, False, False, False, None]
    assert [down.beaten_by(value) for value in (40.0, 50.0, 60.0)] == [True, False, False]
    assert up.verdict(0.8) == "dev accuracy 0.8 is better than the baseline b, 0.75"
    assert up.verdict(0.75) == "dev accuracy 0.75 is no better than the baseline b, 0.75"
    assert up.verdict(0.7500001) == "dev accuracy 0.75 is no better than the baseline b, 0.75"
    assert down.verdict(60.0) == "dev perplexity 60 is worse than the baseline a, 50"
    assert Baselines("accuracy", False).verdict(0.8) == ""
    assert TypeAdapter(Baselines).validate_python(json.loads(json.dumps(up.as_dict()))) == up


def test_nothing_is_suggested_for_a_perfect_model(tables, capsys):
    settings = find("classify").Settings.read({"train": tables[0], "dev": tables[1]})
    found = Baselines("accuracy", False, [Baseline("a", 1.0, 0.1)])
    result = {"metric": "accuracy", "best_epoch": 1, "epochs": 1, "dev_accuracy": 1.0}
    assert "suggestions" not in compare(found, settings, result, Bar())
    assert "dev accuracy 1 is no better than the baseline a, 1\n" in capsys.readouterr().err
    assert "suggestions" in compare(found, settings, {**result, "dev_accuracy": 0.9}, Bar())


def test_suggestions_come_from_the_settings_and_the_best_epoch(tables):
    settings = find("classify").Settings.read(
        {"train": tables[0], "dev": tables[1], "schedule": "cosine", "lower": True}
    )
    assert suggestions(settings, {"best_epoch": 5, "epochs": 5})[0].startswith("more epochs")
    early = suggestions(settings, {"best_epoch": 2, "epochs": 5})
    never = suggestions(settings, {"best_epoch": 1, "epochs": 5})  # nothing was learned that more dropout would keep
    assert never[0] == "another lr (epoch 1 of 5 was the best)" and never[-1] == "more training data"
    idle = suggestions(settings, {"best_epoch": 5, "epochs": 5, "network_is_idle": True})
    assert idle == ["pre-trained word vectors (vectors)", "more training data"]
    assert early[0].startswith("more dropout") and not any("cosine" in tip or "lower" in tip for tip in early)


@pytest.mark.parametrize("stop", [("batch", 1, 2), ("saved", 1)])
def test_a_killed_run_resumes_exactly_and_fits_no_baseline_again(stop, tmp_path, monkeypatch, with_baselines):
    settings = language(tmp_path, dropout=0.3, layout="lines")
    whole = fit(settings, tmp_path / "whole")
    plain = fit(language(tmp_path, dropout=0.3, layout="lines", baseline=False), tmp_path / "plain")
    assert outcome(whole) == outcome(plain)  # weights and log to the last bit
    assert "baselines" not in plain.result and whole.result["baselines"]
    with monkeypatch.context() as patch:
        kill_at(patch, *stop)
        with pytest.raises(Killed):
            fit(settings, tmp_path / "killed")
    kept = (tmp_path / "killed" / "baselines.json").read_bytes()

    def never(*args):
        raise AssertionError("fitted again")

    monkeypatch.setattr(trainer, "fit_baselines", never)
    resumed = fit({}, tmp_path / "killed", resume=True)
    assert outcome(resumed) == outcome(whole)
    assert (tmp_path / "killed" / "baselines.json").read_bytes() == kept
    assert resumed.result["baselines"] == json.loads(kept)["results"]


def test_the_setting_may_change_on_resume(tmp_path, monkeypatch, with_baselines):
    settings = language(tmp_path, baseline=False)
    with monkeypatch.context() as patch:
        kill_at(patch, "saved", 1)
        with pytest.raises(Killed):
            fit(settings, tmp_path / "run")
    assert fit({"baseline": True}, tmp_path / "run", resume=True).result["baselines"]


def test_random_numbers_and_threads_stay_as_they_are(tables, with_baselines):
    torch.manual_seed(3)
    np.random.seed(3)
    before, numbers = torch.get_rng_state(), np.random.get_state()[1].copy()
    carousel.baseline("classify", *tables[:1], dev=tables[1], threads=1)
    assert torch.equal(before, torch.get_rng_state()) and (np.random.get_state()[1] == numbers).all()


def test_missing_libraries_are_one_line_and_the_others_are_measured(tables, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.partition(".")[0] == "sklearn":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    found = carousel.baseline("classify", tables[0], dev=tables[1])
    assert [one.name for one in found.results] == ["majority class"]
    (note,) = found.notes
    assert note.endswith("needs scikit-learn: pip install 'carousel-rnn[baselines]'")
    assert str(found).endswith(note)


def test_the_command_prints_a_table_or_json(tables, capsys):
    def run(*args):
        with pytest.raises(SystemExit) as end:
            main(["baseline", *map(str, args)])
        return end.value.code, *capsys.readouterr()

    code, out, err = run("classify", tables[0], "--dev", tables[1])
    assert (code, err) == (0, "")
    header, majority, linear = out.splitlines()
    assert header.split() == ["baseline", "dev", "accuracy", "seconds"]
    assert majority.split()[:3] == ["majority", "class", "0.25"] and " 1 " in linear
    code, out, _ = run("classify", tables[0], "--dev", tables[1], "--json")
    found = json.loads(out)
    assert found["metric"] == "accuracy" and [one["value"] for one in found["results"]] == [0.25, 1.0]
    code, out, err = run("classify", tables[0], "--text-column", "9", "--dev", tables[1])
    assert (code, out) == (1, "") and len(err.splitlines()) == 1
    assert run("classify", tables[0], "--set", "label_columm=2")[2].endswith("did you mean label_column?\n")


def test_data_in_memory_and_what_there_is_nothing_to_measure_on(tables):
    rows = [("good", "pos"), ("bad", "neg")] * 4
    assert carousel.baseline("classify", rows, dev=rows[:3]).best.value == 1.0
    with pytest.raises(SettingsError, match="dev: there is nothing to measure"):
        carousel.baseline("lm", ["abba", "cab"])
    with pytest.raises(ArgumentError, match="translate: this task has no baselines"):
        carousel.baseline("translate", [("a b", "c d")] * 8, dev=[("a b", "c d")])


def test_the_libraries_are_imported_only_where_they_are_used():
    """Inside functions, so that neither help nor the start of a run waits for them."""
    source = Path(carousel.__file__).parent
    for path in source.rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.partition(".")[0] for name in names} & {*LIBRARIES, "scipy"}, path
