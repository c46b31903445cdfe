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
from ...wording import setting

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

    if isinstance(given, str) and given.endswith(".py"):
        raise ValueError(f"{given}: its class is missing; give {_with_class(given)}")
    cell = load_place(given, "a cell") if isinstance(given, str) and is_place(given) else given
    if isinstance(cell, type) and issubclass(cell, Cell):
        name = next((name for name, known in registry().items() if known is cell), None)
        return name or _named_after_its_class(cell)
    if isinstance(cell, str) and cell in registry():
        return cell
    if given is cell and not isinstance(cell, type | str):
        raise ValueError("should be a name, FILE.py:CLASS or a class")
    if not isinstance(cell, str):
        file, _, name = str(given).rpartition(":") if isinstance(given, str) else ("", "", f"{cell!r:.60}")
        raise ValueError(f"{file and file + ': '}{name} is not a carousel.Cell; give a class that is one")
    if hint := did_you_mean(cell, registry(), cutoff=0.7):
        raise ValueError(f"there is no cell {shorten(cell)!r}; {hint}")
    raise ValueError(f"{unknown_cell(cell)}; cells are {', '.join(registry())}")


def unknown_cell(name: str) -> str:
    remedy = f"give {setting('cell', 'FILE.py:CLASS')}, or import its module first"
    return f"the cell {shorten(name)!r} is not known here; {remedy}"


def _named_after_its_class(cell: Any) -> str:
    """Register a cell that has no name of its own under that of its class."""
    from ...cells import registry
    from ...cells.spec import register

    name = str(cell.__name__).lower()
    if (other := registry().get(name)) is not None and other.__module__ != cell.__module__:
        own = f'class {cell.__name__}(Cell, name="…")'
        raise ValueError(f"the cell {cell.__name__} has no name, and {name} is that of another; write {own}")
    register(cell, name)
    cell.name = name
    return name


def _with_class(file: str) -> str:
    """FILE.py:CLASS with the cells of the file, which is not run."""
    try:
        body = ast.parse(Path(file).read_text("utf-8")).body
    except (OSError, ValueError, SyntaxError):
        return f"{file}:CLASS"
    classes = (node for node in body if isinstance(node, ast.ClassDef))
    names = [node.name for node in classes if any("Cell" in ast.unparse(base) for base in node.bases)]
    return " or ".join(f"{file}:{name}" for name in names) or f"{file}:CLASS"


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
