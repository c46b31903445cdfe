"""The figures of docs/lab.md: every mean with its range stands in what the lab prints.

Labs that train are left out: the last bits of the arithmetic, which differ between instruction sets, numbers of threads
and versions of the kernels, move their figures.
"""

import re
from pathlib import Path

import pytest

from carousel import lab
from carousel.lab import LABS

TEXT = (Path(__file__).parent.parent / "docs" / "lab.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## ([a-z-]+)\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S))
# 70 (55 to 85), 24.8 % (23.7 to 25.7), −0.04 (−0.05 to −0.04); and of languages, 0 to 135 (43.2 %)
NUMBER = r"−?\d[\d,.]*\d|−?\d"
SPREAD = re.compile(rf"(?:{NUMBER})(?: %)? \((?:{NUMBER}) to (?:{NUMBER})\)|\d+ to \d+ \([\d.]+ %\)")


def spreads(name):
    """The means with their ranges that the documentation of a lab has, and the figures of a table of languages."""
    return SPREAD.findall(" ".join(SECTIONS[name].split()))


def printed(finding):
    """What the lab says, on one line."""
    return " ".join(f"{finding.lead(finding.measured)} {finding} {finding.decision()}".split())


WITH_FIGURES = [name for name in LABS if spreads(name)]
TRAINS = [name for name in WITH_FIGURES if lab.finding_class(name).trains]


def test_every_lab_has_a_section_and_trainings_have_figures():
    assert set(LABS) <= set(SECTIONS)
    trains = [name for name in LABS if lab.finding_class(name).trains]
    assert set(trains) - set(WITH_FIGURES) == {"hankel"}  # fifteen of fifteen networks, without a range


def check(name):
    text = printed(lab.module_of(name).run())
    assert not [figure for figure in spreads(name) if figure not in text]


def test_figures_without_training():
    check("saddle")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in WITH_FIGURES if name not in {*TRAINS, "saddle"}])
def test_figures_that_take_longer(name):
    check(name)
