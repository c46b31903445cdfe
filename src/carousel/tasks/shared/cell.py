"""The setting `cell`: one of the built-in cells, a registered one of the user's, or one in a file, FILE.py:CLASS."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from ...errors import ArgumentError, did_you_mean, shorten
from ...training.settings import Choices, key
from ...user_code import is_place, load_place


@functools.cache
def built_in_cells() -> tuple[str, ...]:
    """The names in the class statements of `carousel.cells`, without importing torch.

    >>> "lstm" in built_in_cells()
    True
    """
    files = sorted((Path(__file__).parents[2] / "cells").glob("*.py"))
    nodes = (node for file in files for node in ast.parse(file.read_text("utf-8")).body)
    given = (k.value for node in nodes if isinstance(node, ast.ClassDef) for k in node.keywords if k.arg == "name")
    return tuple(value.value for value in given if isinstance(value, ast.Constant) and isinstance(value.value, str))


def find_cell(place: Any) -> None:
    """Let a cell of the user's, a class or FILE.py:CLASS, be known by its name."""
    try:
        cell_name(place)
    except ValueError as error:
        raise ArgumentError(f"cell {place}: {error}") from error


def is_known(name: str) -> bool:
    """Whether a cell is built in or has been registered; a place in a file is not a name."""
    if name in built_in_cells():
        return True
    from ...cells import registry

    return name in registry()


def cell_name(given: Any) -> Any:
    """The name of a cell that is given by name, as FILE.py:CLASS, or as a class; the class is registered then."""
    if isinstance(given, str) and given in built_in_cells():
        return given
    from ...cells import Cell, registry

    cell = load_place(given, "a cell") if isinstance(given, str) and is_place(given) else given
    if isinstance(cell, type) and issubclass(cell, Cell):
        name = next((name for name, known in registry().items() if known is cell), None)
        if name is None:
            raise ValueError(f'the cell {cell.__name__} has no name; write class {cell.__name__}(Cell, name="…")')
        return name
    if isinstance(cell, str) and cell in registry():
        return cell
    hint = did_you_mean(str(cell), registry()) or f"cells are {', '.join(registry())}; or give FILE.py:CLASS"
    raise ValueError(f"there is no cell {shorten(str(cell))!r}; {hint}")


CellName = Annotated[str, BeforeValidator(cell_name), Choices(built_in_cells, "FILE.py:CLASS")]
Nonlinearity = Literal["tanh", "relu", "sigmoid"]


def nonlinearity_key() -> Any:
    """The key `nonlinearity` of every task with recurrent layers."""
    return key("tanh", "activation of the cell rnn", "model", {"cell": ("rnn",)})
