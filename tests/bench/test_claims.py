"""Figures with their claims in a file."""

import io
import json

import pytest
import torch
from rich.console import Console

from carousel.bench.claims import measured, print_claims, print_tables


def test_the_file_has_what_was_measured_and_its_claims(tmp_path):
    before = torch.get_num_threads()

    result = measured(
        tmp_path / "speed.json", lambda: {"ratio": 1.5}, lambda found: [{"what": "ratio", "found": found["ratio"]}]
    )
    assert result == {"ratio": 1.5, "claims": [{"what": "ratio", "found": 1.5}]}
    assert json.loads((tmp_path / "speed.json").read_text()) == result
    assert torch.get_num_threads() == before


def test_a_place_that_cannot_be_written_is_found_before_measuring(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        measured(tmp_path / "file" / "speed.json", lambda: pytest.fail("measured"), lambda found: [])
    with pytest.raises(KeyError):
        measured(tmp_path / "speed.json", lambda: {}["gone"], lambda found: [])
    assert not (tmp_path / "speed.json").exists()


def test_what_is_missed_is_marked():
    out = io.StringIO()
    claims = [
        {"what": "faster", "found": 1.23456, "must": "> 1", "holds": True},
        {"what": "smaller", "found": 2.0, "must": "< 1", "holds": False},
    ]
    print_claims(Console(file=out), claims)
    assert out.getvalue() == "faster: 1.23 (> 1)\nsmaller: 2 (< 1)  missed\n"


def test_a_row_that_is_missed_is_red():
    console = Console(file=io.StringIO(), width=40, force_terminal=True, color_system="standard")
    print_tables(console, (["claim", "verdict"], [["faster", "holds"], ["smaller", "missed"]]), (["size"], [["3"]]))
    faster, smaller, size = (
        next(line for line in console.file.getvalue().splitlines() if word in line)
        for word in ("faster", "missed", "3 ")
    )
    assert "\x1b[31m" in smaller
    assert "\x1b[31m" not in faster + size
