"""Options of labs: every parameter that has one is an option of the command, with its limits."""

import inspect
import typing

import pytest

from carousel.cli.main import main
from carousel.lab import LABS, module_of
from carousel.lab.options import Option, help_text, seed_numbers


def offered(run):
    hints = typing.get_type_hints(run, include_extras=True)
    return {
        name: option
        for name in inspect.signature(run).parameters
        for option in getattr(hints[name], "__metadata__", ())
        if isinstance(option, Option)
    }


@pytest.mark.parametrize("name", ["agreement", "saddle", "stack"])
def test_help_has_every_option(name, capsys):
    with pytest.raises(SystemExit):
        main(["lab", name, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    options = offered(module_of(name).run)
    assert options
    for parameter, option in options.items():
        assert f"--{parameter.replace('_', '-')}" in text and option.help.split(".")[0] in text


def test_a_number_below_its_minimum_is_refused(capsys):
    with pytest.raises(SystemExit) as end:
        main(["lab", "agreement", "--seeds", "0"])
    assert end.value.code == 2 and "--seeds" in capsys.readouterr().err


def test_labs_of_seeds_take_five():
    """A claim that takes more seeds than its lab has by default could never be decided."""
    for name in LABS:
        run = module_of(name).run
        seeds = inspect.signature(run).parameters.get("seeds")
        needed = max(claim.seeds for claim in typing.get_type_hints(run)["return"].claims)
        assert needed == 1 or seeds is None or seeds.default >= needed, name


def test_the_help_of_a_lab():
    assert help_text("Squares.\n\nMore.", "square", "--count 5").splitlines() == [
        "Squares.", "", "\b", "carousel lab square", "carousel lab square --count 5",
    ]  # fmt: skip
    assert seed_numbers(3, 2) == [3, 4]
    with pytest.raises(ValueError, match="seeds must be a whole number from 1 up, got 0"):
        seed_numbers(3, 0)
