"""The lab: each claim of the textbook as something that runs.

    found = carousel.lab.bleu()          # any lab, by its name
    print(found)                         # what came out
    found.plot().show()                  # the main figure
    found.write("bleu")                  # index.html, figures as SVG and PNG, numbers.json

A lab NAME is the file `claims/NAME.py`: the first line of its docstring is what `carousel lab list` prints, its `run`
is `carousel.lab.NAME` and returns a :class:`Finding`, and its `HELP` and the parameters of `run` make the command
`carousel lab NAME`. A page's sentences are made from the numbers, so that they are true of every run.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import pkgutil
from typing import TYPE_CHECKING, Any

from . import claims

if TYPE_CHECKING:
    from .finding import Claim, Finding, Verdict

    LABS: dict[str, str]

__all__ = ["LABS", "Claim", "Finding", "Verdict", "module_of"]


@functools.cache
def _labs() -> dict[str, str]:
    """Every lab, and the first line of its docstring. Read, not imported: help does not wait for torch."""
    names = [found.name for found in pkgutil.iter_modules(claims.__path__)]
    return {name.replace("_", "-"): _summary(f"{claims.__name__}.{name}") for name in sorted(names)}


def _summary(module: str) -> str:
    spec = importlib.util.find_spec(module)
    source = spec.loader.get_source(module) if spec else ""  # type: ignore[union-attr]
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def module_of(name: str) -> Any:
    """The module of the lab called `name`, such as "compile-dfa": it has `run` and `HELP`."""
    return importlib.import_module(f"{__name__}.claims.{name.replace('-', '_')}")


def __getattr__(name: str) -> Any:
    """`LABS`, name → what it shows; a lab's `run`, imported when it is first asked for."""
    if name == "LABS":
        return _labs()
    if not name.startswith("_") and name.replace("_", "-") in _labs():
        return module_of(name).run
    if name in ("Claim", "Finding", "Verdict"):
        return getattr(importlib.import_module(f"{__name__}.finding"), name)
    raise AttributeError(f"module 'carousel.lab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *(name.replace("-", "_") for name in _labs())])
