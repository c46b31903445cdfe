"""A small text."""

import pytest
from helpers.sweeps import TEXT


@pytest.fixture
def text(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text(TEXT)
    return str(tmp_path / "text.txt")
