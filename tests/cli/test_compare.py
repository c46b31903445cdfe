"""`carousel compare` on runs."""

import json

import pytest

import carousel
from carousel.cli.main import main


@pytest.mark.learning
def test_runs_of_our_own(tmp_path, capsys):
    runs = []
    for seed in (0, 1):
        runs.append(str(tmp_path / f"run{seed}"))
        carousel.train("lm", ["abba", "baab"], dev=["abab"], out=runs[-1], hidden=4, epochs=2, seed=seed, quiet=True)
    with pytest.raises(SystemExit) as stop:
        main(["compare", *runs, "--json", "--out", str(tmp_path / "page.html")])
    assert not stop.value.code
    groups = json.loads(capsys.readouterr().out)["groups"]
    assert [[run["seed"] for run in group["runs"]] for group in groups] == [[0, 1]]  # though their data is elsewhere
    assert groups[0]["runs"][0]["curve"][-1][0] == 2
    assert (tmp_path / "page.html").exists()
