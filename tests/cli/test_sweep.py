"""`carousel sweep`: its table and its exit code."""

import json

import pytest

from carousel.cli.main import main

TEXT = "the cat sat on the mat\na dog ran to the cat\nthe mat was flat\n" * 4


@pytest.fixture
def text(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text(TEXT)
    return str(tmp_path / "text.txt")


@pytest.mark.learning
def test_the_command(text, tmp_path, capsys):
    words = ["sweep", "lm", text, "--dev", text, "--out", str(tmp_path / "sweep"), "--vary", "lr=1e-3..1e-1",
             "hidden=4,6", "--trials", "1", "--epochs", "1", "--embedding", "4",
             "--threads", "1", "--quiet"]  # fmt: skip
    with pytest.raises(SystemExit) as stop:
        main([*words, "--json"])
    assert stop.value.code == 0
    result = json.loads(capsys.readouterr().out)
    assert result["vary"] == {"lr": {"low": 0.001, "high": 0.1, "log": True, "step": None}, "hidden": [4, 6]}
    assert result["best"] == 0
    with pytest.raises(SystemExit) as stop:
        main([*words, "--vary", "hiden=1,2"])
    assert stop.value.code == 1
    assert "error: --vary hiden: there is no such key; did you mean hidden?" in capsys.readouterr().err
