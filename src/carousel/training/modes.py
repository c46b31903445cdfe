"""Eval mode for as long as a model is used, and the mode that it was in afterwards."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, Protocol, TypeVar

from torch import nn

T = TypeVar("T")
P = ParamSpec("P")


class Modules(Protocol):
    """A network, as far as its mode is concerned."""

    def modules(self) -> Iterable[nn.Module]: ...


@contextmanager
def evaluating(*models: Modules) -> Iterator[None]:
    """The models in eval mode; afterwards all their modules are in the mode they were in."""
    modes = [(module, module.training) for model in models for module in model.modules()]
    for module, _ in modes:
        module.training = False
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def each_evaluating(model: Modules, pieces: Iterator[T]) -> Iterator[T]:
    """`pieces`, each computed with the model in eval mode; in between it is in the mode it was in."""
    end = object()
    while True:
        with evaluating(model):
            piece = next(pieces, end)
        if piece is end:
            return
        yield piece  # type: ignore[misc]


def in_eval_mode(method: Callable[P, T]) -> Callable[P, T]:
    """A method, or one that yields, whose model is in eval mode while it computes."""

    @functools.wraps(method)
    def run(*args: P.args, **options: P.kwargs) -> Any:
        model: Any = args[0]
        result: Any
        if inspect.isgeneratorfunction(method):
            result = method(*args, **options)
            return each_evaluating(model, result)
        with evaluating(model):
            return method(*args, **options)

    return run
