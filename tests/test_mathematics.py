"""The page on the mathematics: what it names exists."""

import re
from pathlib import Path

import pytest

from carousel.cells import registry
from carousel.lab import LABS
from carousel.networks.attention import Attention, make_attention

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "mathematics.md").read_text("utf-8")


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(tests/[\w/]+\.py)`", TEXT))))
def test_a_test_that_is_named_exists(path):
    assert (ROOT / path).is_file()


def test_every_cell_has_its_equations():
    files = {Path(cell.__module__.replace(".", "/")).name for cell in registry().values()}
    assert {f"cells/{name}.py" for name in files} == set(re.findall(r"### .*\(`(cells/\w+\.py)`\)", TEXT))


def test_every_kind_of_attention_has_its_derivative():
    options = {"location": {"places": 3}}
    kinds = {type(make_attention(name, 4, 4, **options.get(name, {}))).__name__ for name in Attention.names}
    assert kinds == set(re.findall(r"^\| `([A-Z]\w+)` \|", TEXT, re.M))


def test_every_lab_that_is_named_exists():
    assert set(re.findall(r"`carousel lab ([\w-]+)`", TEXT)) <= set(LABS)
