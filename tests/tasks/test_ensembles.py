"""Ensembles of every task that has them: predictions are averages, members are runs, and a run can be resumed."""

import json
import math
import shutil
import statistics

import numpy as np
import pytest
import torch
from helpers.tiny import Killed, kill_at, outcome

import carousel
from carousel.errors import CarouselError, RunError
from carousel.training import Run

SMALL = {"threads": 1, "quiet": True, "report": False, "hidden": 4, "epochs": 2, "lr": 0.05}
WORDS = {**SMALL, "embedding": 4, "min_frequency": 1, "batch_size": 8}
TEXTS = [f"{a} {b} film" for a in ("fine", "warm", "dull", "flat") for b in ("so", "very", "a", "the", "this", "that")]
LABELS = ["good" if text < "fl" or text > "w" else "bad" for text in TEXTS]
TAGS = [[(word, "B-X" if word in ("fine", "warm") else "O") for word in text.split()] for text in TEXTS]
PARTS = [[(word, "ND"[len(word) > 3]) for word in text.split()] for text in TEXTS]
CASES = {
    "classify": ("classify", [(text, "xy"[(k + k // 6) % 2]) for k, text in enumerate(TEXTS)], WORDS),
    "classify alone": ("classify", list(zip(TEXTS, LABELS, strict=True)), {**WORDS, "linear": False}),
    "crf": ("tag", TAGS, WORDS),
    "softmax": ("tag", PARTS, WORDS),
    "classes": ("encode", [(text, text[::-1], label) for text, label in zip(TEXTS, LABELS, strict=True)], WORDS),
    "scores": ("encode", [(text, text[::-1], float(k % 5)) for k, text in enumerate(TEXTS)], WORDS),
    "tree": (
        "tree", [f"({k % 2} ({k % 3} {t.split()[0]}) ({k % 2} {t.split()[1]}))" for k, t in enumerate(TEXTS)], WORDS,
    ),
    "forecast": (
        "forecast", [math.sin(k) + 0.1 * k for k in range(60)], {**SMALL, "season": 4, "horizon": 2, "linear": False},
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=CASES)
def ensemble(request, tmp_path_factory):
    """The name of a case, its data, a model of three, and where it is."""
    folder = tmp_path_factory.mktemp("ensemble")
    task, data, settings = CASES[request.param]
    settings = settings if task == "forecast" else {**settings, "cache": folder / "cache"}
    model = carousel.train(task, data, out=folder / "run", seeds=3, seed=5, **settings)
    return request.param, data, model, folder / "run"


def _probabilities(case, model, item):
    """What a model says of an item, as an array of which that of the ensemble is the mean."""
    if case in ("classify", "classify alone"):
        return list(model.predict(item[0]).probabilities.values())
    if case in ("classes", "scores"):
        one = model.predict(*item[:2])
        return [one.label] if case == "scores" else list(one.probabilities.values())
    if case == "tree":
        return model.predict(item).probabilities.numpy()
    if case == "softmax":
        batch = model.batch_of([[word for word, _ in item]])
        return model.network.emissions(batch).exp().numpy()
    return model.predict(CASES["forecast"][1]).median


@pytest.mark.parametrize("ensemble", [case for case in CASES if case != "crf"], indirect=True)
def test_a_prediction_is_the_mean_of_the_members_predictions(ensemble):
    case, data, model, run = ensemble
    members = [carousel.load(run / "members" / str(k)) for k in (1, 2, 3)]
    assert [member.settings.seed for member in members] == [5, 6, 7]
    with torch.no_grad():
        each = [np.array(_probabilities(case, member, data[0])) for member in members]
        got = np.array(_probabilities(case, model, data[0]))
    assert not np.allclose(each[0], each[1], atol=1e-4)
    np.testing.assert_allclose(got, np.mean(each, 0), atol=3e-6)
    assert len(model.members) == 3 and model.size == 3 * members[0].size and "ensemble of 3" in repr(model)


@pytest.mark.parametrize("ensemble", ["crf"], indirect=True)
def test_a_tagging_has_the_geometric_mean_of_what_members_give_it(ensemble):
    _, data, model, _ = ensemble
    words = [word for word, _ in data[0]]
    total = len(model.vocabulary.tags) ** len(words)
    each = []
    for one in [*model.members, model]:
        best = one.predict([words], n_best=total)[0]
        each.append({tuple(tags): p for tags, p in zip(best.taggings, best.log_probs, strict=True)})
    *members, own = each
    mean = {tags: statistics.mean(member[tags] for member in members) for tags in own}
    norm = math.log(sum(math.exp(p) for p in mean.values()))
    assert own == pytest.approx({tags: p - norm for tags, p in mean.items()}, abs=1e-4)


def test_the_evaluation_has_the_spread_of_the_members(ensemble):
    case, data, model, run = ensemble
    if case == "forecast":
        data = run / "data" / "train.csv"
    result = carousel.evaluate(model, data)
    each = [carousel.evaluate(member, data) for member in model.members]
    metric = model.network.metric().best
    values = [one[metric] for one in each]
    assert result["members"][metric] == {"mean": statistics.mean(values), "sd": statistics.stdev(values)}
    assert "members" not in each[0]
    kept = json.loads((run / "result.json").read_text())
    assert [one["seed"] for one in kept["members"]] == [5, 6, 7] and kept["seeds"] == 3
    assert kept[f"members_dev_{metric}"]["mean"] == pytest.approx(
        statistics.mean(one[f"dev_{metric}"] for one in kept["members"])
    )


def test_vectors_of_texts_stand_side_by_side(ensemble):
    case, _, model, _ = ensemble
    if case not in ("classes", "scores"):
        return
    np.testing.assert_allclose(model.embed("fine film"), np.concatenate([m.embed("fine film") for m in model.members]))
    assert model.embed([]).shape == (0, 24)


# ---------------------------------------------------------------- runs

DATA = list(zip(TEXTS, LABELS, strict=True))


def test_an_ensemble_that_was_killed_ends_like_one_that_was_not(tmp_path, monkeypatch):
    settings = {**WORDS, "cache": tmp_path / "cache", "seeds": 2}
    whole = carousel.train("classify", DATA, out=tmp_path / "whole", **settings)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_at(patch, "batch", 1, 1)
        carousel.train("classify", DATA, out=tmp_path / "run", **settings)
    assert not (tmp_path / "run" / "members" / "2").exists()
    with pytest.raises(RunError, match="no weights yet"):
        shutil.copytree(tmp_path / "run", tmp_path / "copy")
        carousel.load(tmp_path / "copy")
    model = carousel.train("classify", out=tmp_path / "run", resume=True, quiet=True, report=False)
    for number in (1, 2):
        a, b = (outcome(Run(tmp_path / name).member(number)) for name in ("whole", "run"))
        assert a == b
    assert model.predict(TEXTS).__repr__() == whole.predict(TEXTS).__repr__()


def test_an_ensemble_gets_more_members_and_never_fewer(tmp_path, command):
    settings = {**WORDS, "cache": tmp_path / "cache"}
    carousel.train("classify", DATA, out=tmp_path / "run", seeds=2, **settings)
    before = [outcome(Run(tmp_path / "run").member(k)) for k in (1, 2)]
    code, _, _ = command("train", "classify", "--out", tmp_path / "run", "--resume", "--seeds", 3, "--quiet")
    assert code == 0 and len(carousel.load(tmp_path / "run").members) == 3
    assert [outcome(Run(tmp_path / "run").member(k)) for k in (1, 2)] == before
    code, _, err = command("train", "classify", "--out", tmp_path / "run", "--resume", "--seeds", 2)
    assert code == 1 and "seeds is 3 there, 2 now" in err
    assert (tmp_path / "run" / "report.html").read_text().count("Members") >= 1
    code, out, _ = command("eval", tmp_path / "run", tmp_path / "run" / "data" / "train.jsonl")
    assert code == 0 and "members" in out and "sd" in out
    with pytest.raises(RunError, match="a run is here already"):
        carousel.train("classify", DATA, out=tmp_path / "run", **settings)
    carousel.train("classify", DATA, out=tmp_path / "run", force=True, **settings)
    assert not (tmp_path / "run" / "members").exists()
    with pytest.raises(RunError, match="seeds is 1 there, 2 now"):
        carousel.train("classify", out=tmp_path / "run", resume=True, seeds=2, quiet=True)


def test_bad_data_leaves_nothing_behind(tmp_path):
    with pytest.raises(CarouselError, match="every row has the label"):
        carousel.train("classify", [("a", "x")] * 30, out=tmp_path / "run", seeds=2, **WORDS)
    assert not (tmp_path / "run").exists()


def test_tasks_without_ensembles_have_no_such_setting(tmp_path):
    with pytest.raises(CarouselError, match="seeds: there is no such key"):
        carousel.train("lm", ["a b c"], out=tmp_path / "run", seeds=2)
