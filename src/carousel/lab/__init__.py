"""The lab: each claim of the textbook as something that runs.

    result = carousel.lab.bleu()         # any lab, by its name
    print(result)                        # what came out
    result.verdicts()                    # whether each claim holds, and why
    result.plot().show()                 # the main figure
    result.write("bleu")                 # index.html, figures as SVG and PNG, numbers.json
    carousel.lab.verdicts("bleu")        # the verdicts, computed again from numbers.json

A lab NAME is the file `claims/NAME.py`: the first line of its docstring is what `carousel lab list` prints, its `run`
is `carousel.lab.NAME` and returns a :class:`Finding`, and its `HELP` and the parameters of `run` make the command
`carousel lab NAME`. Verdicts, leads and tables are computed from the numbers in numbers.json and from nothing else.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import pkgutil
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import claims

if TYPE_CHECKING:
    from .claim import Claim, Verdict
    from .finding import Exercise, Finding, Step

    LABS: dict[str, str]

EXPORTS = {"Claim": "claim", "Verdict": "claim", "Finding": "finding", "Step": "finding", "Exercise": "finding"}
__all__ = ["LABS", "Claim", "Exercise", "Finding", "Step", "Verdict", "finding_class", "module_of", "verdicts"]


@functools.cache
def _labs() -> dict[str, str]:
    """Every lab, and the first line of its docstring. Read, not imported: help does not wait for torch."""
    names = [module.name for module in pkgutil.iter_modules(claims.__path__)]
    return {name.replace("_", "-"): _summary(f"{claims.__name__}.{name}") for name in sorted(names)}


def _summary(module: str) -> str:
    spec = importlib.util.find_spec(module)
    source = spec.loader.get_source(module) if spec else ""  # type: ignore[union-attr]
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def module_of(name: str) -> Any:
    """The module of the lab called `name`, such as "compile-dfa": it has `run` and `HELP`."""
    return importlib.import_module(f"{__name__}.claims.{name.replace('-', '_')}")


def finding_class(name: str) -> type[Finding]:
    """The class of what the lab called `name` gives back."""
    return typing.get_type_hints(module_of(name).run)["return"]


def verdicts(path: str | Path) -> dict[str, Verdict]:
    """The verdict on each claim of a lab, by its key, computed from the numbers that a run has saved.

    `path` is a numbers.json, or the directory that holds one.
    """
    from ..parsing import parse_json

    path = Path(path)
    numbers = parse_json((path / "numbers.json" if path.is_dir() else path).read_text("utf-8"))
    return {claim.key: claim.verdict(numbers) for claim in finding_class(numbers["lab"]).claims}


def __getattr__(name: str) -> Any:
    """`LABS`, name → what it shows; a lab's `run`, imported when it is first asked for."""
    if name == "LABS":
        return _labs()
    if not name.startswith("_") and name.replace("_", "-") in _labs():
        return module_of(name).run
    if name in EXPORTS:
        return getattr(importlib.import_module(f"{__name__}.{EXPORTS[name]}"), name)
    raise AttributeError(f"module 'carousel.lab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *(name.replace("-", "_") for name in _labs())])
