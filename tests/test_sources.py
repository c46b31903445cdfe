"""The index of the sources and the errata: every row has a target that exists; and errata that no lab shows."""

import importlib
import re
from pathlib import Path

import pytest
import torch

from carousel.cli.main import main
from carousel.lab import LABS

ROOT = Path(__file__).parent.parent


def rows(name):
    """The rows of all tables of a page, without their heads: lists of cells."""
    lines = (ROOT / "docs" / name).read_text("utf-8").splitlines()
    table = [line for line in lines if line.startswith("|") and not re.match(r"\|[-|]+\|$", line)]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]
    return [row for row in cells if row[0].strip("| ") != "place"]


def targets(row):
    return re.findall(r"`((?:carousel|tests/)[^`]*)`", row[-1])


def exists(target):
    if target.startswith("tests/"):
        return (ROOT / target).is_file()
    if target.startswith("carousel lab "):
        return target.removeprefix("carousel lab ") in {*LABS, "list"}
    if target.startswith("carousel "):
        with pytest.raises(SystemExit) as end:
            main([*target.split()[1:], "--help"])
        return end.value.code == 0
    parts = target.split(".")
    for k in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        for part in parts[k:]:
            found = getattr(found, part, None)
        return found is not None
    return False


@pytest.mark.parametrize("page", ["sources.md", "errata.md"])
def test_no_row_is_empty_and_every_target_exists(page, capsys):
    table = rows(page)
    assert len(table) > 40
    columns = {"sources.md": 3, "errata.md": 4}[page]
    for row in table:
        assert len(row) == columns and all(row), row
        assert targets(row), row
    missing = {target for row in table for target in targets(row) if not exists(target)}
    assert not missing


def numbered(kind, table):
    """The numbers that the first cells of a table give to equations, algorithms or figures."""
    found = set()
    for row in table:
        for part in re.findall(rf"{kind}s? ((?:\d+(?: to \d+)?(?:, | and )?)+)", row[0]):
            for first, last in re.findall(r"(\d+)(?: to (\d+))?", part):
                found |= set(range(int(first), int(last or first) + 1))
    return found


def test_every_numbered_item_is_in_the_index():
    page = (ROOT / "docs" / "sources.md").read_text("utf-8")
    titles = re.findall(r"^## (\d{3})", page, re.M)
    assert titles == ["000", "001", "002", "003", "004"]
    table = rows("sources.md")
    start = next(k for k, row in enumerate(table) if row[0] == "figure 1")
    assert numbered("equation", table[:start]) == set(range(1, 12))  # of source 000
    assert numbered("equation", table[start:]) == set(range(1, 88))  # of source 003
    assert numbered("algorithm", table) == {1, 2, 3}
    assert numbered("figure", table) == set(range(1, 34))


# ---------------------------------------------------------------- errata of source 002 that no lab shows


def test_the_derivative_of_a_concatenation_is_not_square():
    h, x = torch.randn(3), torch.randn(2)
    by_h, by_x = torch.autograd.functional.jacobian(lambda h, x: torch.cat([h, x]), (h, x))
    assert torch.equal(by_h, torch.cat([torch.eye(3), torch.zeros(2, 3)]))
    assert torch.equal(by_x, torch.cat([torch.zeros(3, 2), torch.eye(2)]))


def test_the_terms_of_requirement_2_are_counted_twice():
    """∇h as a sum of ∂h/∂i ∇i, ∂h/∂f ∇f, ∂h/∂g ∇g, ∂h/∂o ∇o and ∂h/∂c ∇c, for changes ∇ of one weight."""

    def forward(w):
        i, f, o = torch.sigmoid(w), torch.sigmoid(2 * w), torch.sigmoid(3 * w)
        g, c_before = torch.tanh(w), torch.tensor(0.7, dtype=torch.float64)
        c = f * c_before + i * g
        return i, f, g, o, c, o * torch.tanh(c)

    w = torch.tensor(0.3, dtype=torch.float64)
    i, f, g, o, c, _ = forward(w)
    d_i, d_f, d_g, d_o, d_c, d_h = torch.autograd.functional.jacobian(forward, w)
    slope = o * (1 - torch.tanh(c) ** 2)
    by_gates = slope * (g * d_i + 0.7 * d_f + i * d_g)
    assert torch.isclose(d_h, torch.tanh(c) * d_o + slope * d_c)  # once, by c
    assert torch.isclose(slope * d_c, by_gates)  # which is what the terms for i, f and g give
    assert not torch.isclose(d_h, by_gates + torch.tanh(c) * d_o + slope * d_c)  # as printed
    assert f > 0
