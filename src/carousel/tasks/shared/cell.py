"""Settings of recurrent layers. `cell` is a built-in cell, a registered one of the user's, or FILE.py:CLASS."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator

from ...errors import ArgumentError, did_you_mean, shorten
from ...training.settings import MOST_LAYERS, Choices, Settings, key
from ...user_code import is_place, load_place

if TYPE_CHECKING:  # help does not wait for torch
    from ...layers import Recurrent


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
    if not isinstance(cell, str):
        raise ValueError("should be a name, FILE.py:CLASS or a class")
    if cell in registry():
        return cell
    hint = did_you_mean(str(cell), registry()) or f"cells are {', '.join(registry())}; or give FILE.py:CLASS"
    raise ValueError(f"there is no cell {shorten(str(cell))!r}; {hint}")


CellName = Annotated[str, BeforeValidator(cell_name), Choices(built_in_cells, "FILE.py:CLASS")]
Nonlinearity = Literal["tanh", "relu", "sigmoid"]


class CellSettings(Settings):
    """Keys of the tasks with recurrent layers."""

    cell: CellName = key("lstm", "recurrent cell", "model")
    nonlinearity: Nonlinearity = key("tanh", "activation of the cell rnn", "model", {"cell": ("rnn",)})
    hidden: int = key(128, "hidden units per layer", "model", ge=1)
    layers: int = key(1, "recurrent layers", "model", ge=1, le=MOST_LAYERS)

    def recurrent(self, input_size: int, hidden_size: int | None = None, **options: Any) -> Recurrent:
        """Layers of these settings' cell, by default with `hidden` units: (T, B, input_size) → (T, B, units of both
        directions). `options` are the layers' own."""
        from ...networks.encoder import encoder

        return encoder(self.cell, input_size, hidden_size or self.hidden, nonlinearity=self.nonlinearity, **options)


class DirectionSettings(CellSettings):
    """Keys of the tasks whose layers may read in both directions."""

    hidden: int = key(128, "hidden units per layer and direction", "model", ge=1)
    bidirectional: bool = key(True, "read in both directions", "model")

    @property
    def encoded(self) -> int:
        """How many numbers the layers give for a step."""
        return self.hidden * (2 if self.bidirectional else 1)
