"""Runs side by side: what differs, groups of seeds, mean and standard deviation."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from helpers.pages import figures

import carousel
from carousel.errors import ArgumentError, RunError


def make_run(folder, value, seed=0, task="lm", metric="perplexity", curve=(9.0, 7.0), **settings):
    """The files of a run, as far as a comparison reads them."""
    folder.mkdir()
    config = {"task": task, "train": "/t.txt", "epochs": 2, "seed": seed, "hidden": 8, "threads": seed, **settings}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    result = {"task": task, "metric": metric, f"dev_{metric}": value, "epochs": 2, "minutes": 1.5, "parameters": 1000}
    (folder / "result.json").write_text(json.dumps(result))
    rows = "".join(f"{k},{k},{v}\n" for k, v in enumerate(curve, 1))
    (folder / "metrics.csv").write_text(f"step,epoch,dev_{metric}\n{rows}")
    return folder


def test_a_repeated_run_is_no_spread(tmp_path):
    runs = [make_run(tmp_path / f"a{k}", 7.0) for k in range(2)]
    comparison = carousel.compare(runs)
    assert comparison.groups[0].sd is None
    assert comparison.rows()[1][0][:3] == [f"{runs[0]} and 1 more of the same seed", "0,0", "7"]
    other = make_run(tmp_path / "b", 8.0, seed=1)
    [group] = carousel.compare([*runs, other]).groups
    assert (group.mean, group.name) == (7.5, f"{runs[0]} and 2 more")
    assert group.sd == pytest.approx(np.std([7, 8], ddof=1))


def test_seeds_are_one_row(tmp_path):
    values = [7.0, 8.0, 8.5]
    runs = [make_run(tmp_path / f"a{k}", value, seed=k) for k, value in enumerate(values)]
    runs.append(make_run(tmp_path / "b", 6.0, hidden=16))
    comparison = carousel.compare(runs)
    assert comparison.differing == ["hidden"]
    assert [[run.folder for run in group.runs] for group in comparison.groups] == [runs[:3], runs[3:]]
    assert comparison.groups[0].mean == pytest.approx(np.mean(values))
    assert comparison.groups[0].sd == pytest.approx(np.std(values, ddof=1))
    assert comparison.groups[1].sd is None
    columns, rows = comparison.rows()
    assert columns == ["run", "hidden", "seeds", "dev perplexity", "minutes", "parameters"]
    assert rows[0][1:] == ["8", "0,1,2", "7.833 ± 0.76", "1.5", "1,000"]
    assert rows[1] == [str(runs[3]), "16", "0", "6", "1.5", "1,000"]
    assert comparison.as_dict()["groups"][0]["runs"][1]["curve"] == [(1.0, 9.0), (2.0, 7.0)]
    comparison.write_page(tmp_path / "page.html")
    assert "7.833 ± 0.76" in (tmp_path / "page.html").read_text("utf-8")


def test_the_page_is_legible(tmp_path):
    runs = [make_run(tmp_path / name, 7.0, lr=lr) for name, lr in (("a", 0.0003298603769674154), ("b", 0.003))]
    comparison = carousel.compare(runs)
    assert [row[1] for row in comparison.rows()[1]] == ["0.0003299", "0.003"]
    comparison.write_page(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert '<th scope="col" class="number">lr</th>' in page and '<th scope="col" class="number">parameters</th>' in page
    drawn = figures(page)[0]
    assert [trace["name"] for trace in drawn["data"]] == ["lr 0.0003299", "lr 0.003"]
    assert drawn["layout"]["xaxis"]["dtick"] == 1  # there is no epoch 1.2


def test_names_are_shown_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["1 *bold* `code`", "2 \\(x^\\)"]  # the second is no formula
    runs = [make_run(Path(name), 7.0, columns=f"{k} *a*") for k, name in enumerate(names)]
    carousel.compare(runs).write_page(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    for text in (*names, "0 *a*", "1 *a*"):
        assert f">{text}</t" in page


@pytest.mark.parametrize(
    "damage", [b"\0" * 40, b"\xff\xfe", b"3,2,seven\n", b"3,2,1,1,1\n"], ids=["zeros", "bytes", "words", "more"]
)
def test_a_damaged_log_is_one_line(tmp_path, damage):
    run = make_run(tmp_path / "run", 7.0)
    with open(run / "metrics.csv", "ab") as file:
        file.write(damage)
    with pytest.raises(RunError, match=r"metrics\.csv: damaged \(.*; copy it again"):
        carousel.compare([run])


@pytest.mark.parametrize(
    "data, said",
    [
        (b"", "its first line does not begin with step,epoch"),
        (b"\0" * 50, "its first line does not begin with step,epoch"),
        (b"step,epoch,dev_perplexity\n1,,9\n", "line 2: the epoch is missing"),
        (b"step,epoch,dev_perplexity\n1,1,9\n2,", "line 3: 2 cells instead of 3"),
    ],
    ids=["empty", "zeros", "no epoch", "cut short"],
)
def test_a_log_that_is_not_one(tmp_path, data, said):
    run = make_run(tmp_path / "run", 7.0)
    (run / "metrics.csv").write_bytes(data)
    with pytest.raises(RunError, match=rf"metrics\.csv: damaged \({said}\); copy it again"):
        carousel.compare([run])


@pytest.mark.parametrize("name", ["metric", "dev_perplexity", "epochs", "minutes", "parameters"])
@pytest.mark.parametrize("change", [None, [], True])
def test_a_damaged_result_is_one_line(tmp_path, name, change):
    run = make_run(tmp_path / "run", 7.0)
    result = json.loads((run / "result.json").read_text())
    result[name] = change
    if change is None:
        del result[name]
    (run / "result.json").write_text(json.dumps(result))
    with pytest.raises(RunError, match=r"result\.json: damaged \(.*\); delete it and resume"):
        carousel.compare([run])


def test_a_seed_that_is_none(tmp_path):
    with pytest.raises(RunError, match=r"config\.yaml: seed: many is no whole number; copy it again"):
        carousel.compare([make_run(tmp_path / "run", 7.0, seed="many")])


def test_damaged_weights_of_an_unfinished_run_are_one_line(tmp_path):
    run = make_run(tmp_path / "run", 7.0)
    (run / "result.json").unlink()
    (run / "model.safetensors").write_bytes(b"\0" * 9)
    with pytest.raises(RunError, match=r"model\.safetensors: damaged \(.*; copy it again"):
        carousel.compare([run])


def test_what_cannot_be_compared(tmp_path):
    one, other = make_run(tmp_path / "one", 7.0), make_run(tmp_path / "other", 0.9, task="tag", metric="f1")
    with pytest.raises(ArgumentError, match=r"one is of lm, .*other of tag; compare runs of one task"):
        carousel.compare([one, other])
    with pytest.raises(ArgumentError, match="give a list of run directories"):
        carousel.compare(str(one))
    with pytest.raises(ArgumentError, match="give run directories"):
        carousel.compare([])
    with pytest.raises(RunError, match="no such run"):
        carousel.compare([tmp_path / "nothing"])
    (one / "result.json").unlink()
    with pytest.raises(RunError, match="nothing to compare yet"):
        carousel.compare([one])
