"""Every Python block in the documentation, and every example in a docstring, runs."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest
import torch

import carousel
import carousel.ops.backend

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
NATIVE = {f"carousel.ops._{isa}" for isa in carousel.ops.backend.SETS}  # not every processor runs every one
MODULES = sorted({m.name for m in pkgutil.walk_packages(carousel.__path__, "carousel.")} - NATIVE)


def marked(page):
    """A page whose examples train a model is a test of learning: it asserts what the model then says."""
    trains = re.search(r"carousel\.(train|sweep)\(", page.read_text("utf-8")) is not None
    return pytest.param(page, marks=pytest.mark.learning if trains else (), id=page.name)


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """A page may register a cell; other tests do not see it."""
    monkeypatch.setattr("carousel.cells.spec._registry", dict(carousel.cells.spec._registry))


@pytest.mark.parametrize("page", [marked(page) for page in PAGES])
def test_blocks_run(page):
    if page.name == "sweep.md":
        pytest.importorskip("optuna")
    namespace = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("module", MODULES)
def test_docstring_examples(module):
    if module in ("carousel.sweeps.pruning", "carousel.sweeps.trials"):
        pytest.importorskip("optuna")
    own = importlib.import_module(module)
    names = {name: getattr(carousel, name) for name in carousel.__all__ if name not in vars(own)}
    found = doctest.testmod(own, extraglobs={"torch": torch, "carousel": carousel, **names})
    assert found.failed == 0
