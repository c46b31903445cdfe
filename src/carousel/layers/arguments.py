"""What a layer's constructor accepts: each check names the argument, what was given and what would do."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from ..cells.spec import Cell
from ..errors import did_you_mean


def check_known(layer: type[nn.Module], unknown: Mapping[str, Any]) -> None:
    known = [n for n, p in inspect.signature(layer).parameters.items() if p.kind is not p.VAR_KEYWORD]
    for name in unknown:
        hint = did_you_mean(name, known) or f"it takes {', '.join(known)}"
        raise TypeError(f"{layer.__name__} has no argument {name!r}; {hint}")


def check_size(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
    if value <= 0:
        raise ValueError(f"{name} must be greater than zero, got {value}")


def check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")


def check_number(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise ValueError(f"{name} should be a finite number, got {value!r}")


def check_probability(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) <= 1:
        raise ValueError(f"{name} should be a number in range [0, 1], a probability, got {value!r}")


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def check_dtype(dtype: Any) -> None:
    if dtype is not None and not dtype.is_floating_point:
        raise TypeError(f"dtype should be a floating-point type, got {dtype}")


def check_forget_bias(kind: str, cell: Cell, forget_bias: Any, bias: bool) -> None:
    if forget_bias is None:
        return
    check_number("forget_bias", forget_bias)
    if cell.gate_with("keep") is None or not bias:
        lack = "no bias" if cell.gate_with("keep") else "no gate that keeps the past"
        raise ValueError(f"forget_bias={forget_bias}: this {kind} has {lack}")


def check_projection(cell: Cell, proj_size: Any, hidden_size: int) -> None:
    if not isinstance(proj_size, int) or isinstance(proj_size, bool) or proj_size < 0:
        raise ValueError(f"proj_size should be a positive integer or zero to disable projections, got {proj_size!r}")
    if proj_size and not cell.projects:
        raise ValueError(f"proj_size argument is only supported for LSTM, not RNN or GRU: {cell!r} does not project")
    if proj_size and cell.gates_of("diagonal"):
        raise ValueError(
            f"proj_size: {cell!r} has gates with a diagonal recurrence, which needs h as wide as the gates"
        )
    if proj_size >= hidden_size:
        raise ValueError(f"proj_size has to be smaller than hidden_size, got {proj_size} and {hidden_size}")


def check_recurrence(cell: Cell, hidden_size: int, projected: int, options: Mapping[str, float]) -> None:
    """Refuse block sizes that do not divide, and options of a recurrence that the cell does not have."""
    if cell.gates_of("blocks") and (cell.blocks < 1 or hidden_size % cell.blocks or projected % cell.blocks):
        size = f"{hidden_size}" if projected == hidden_size else f"{hidden_size} and proj_size {projected}"
        raise ValueError(f"hidden_size: {cell!r} has {cell.blocks} blocks, which do not divide {size}")
    for name, rate in options.items():
        if rate and len(cell.gates_of("none")) == len(cell.gates):
            raise ValueError(f"{name}={rate}: {cell!r} has no recurrent weights")


def zoneout_rates(cell: Cell, zoneout: float | Mapping[str, float]) -> dict[str, float]:
    rates = dict(zoneout) if isinstance(zoneout, Mapping) else dict.fromkeys(cell.own_states, zoneout)
    for name, rate in rates.items():
        if name not in cell.own_states:
            raise ValueError(f"zoneout: {cell!r} has no state {name!r}; its states are {cell.own_states}")
        check_probability("zoneout", rate)
    return {name: float(rate) for name, rate in rates.items() if rate}


def check_layer(
    kind: str,
    cell: Any,
    sizes: Mapping[str, Any],
    flags: Mapping[str, Any],
    rates: Mapping[str, Any],
    proj_size: int,
    forget_bias: Any,
) -> None:
    """Refuse what a layer cannot be made of, with torch's exception types."""
    if not isinstance(cell, Cell) or type(cell) is Cell:
        raise TypeError(f"cell must be a carousel.Cell instance with gates and a step of its own, got {cell!r}")
    for name, flag in flags.items():
        check_flag(name, flag)
    for name, size in sizes.items():
        check_size(name, size)
    hidden = sizes["hidden_size"]
    check_projection(cell, proj_size, hidden)
    recurrence = {name: rates[name] for name in ("recurrent_dropout", "weight_drop")}
    check_recurrence(cell, hidden, proj_size or hidden, recurrence)
    for name, rate in rates.items():
        check_probability(name, rate)
    check_forget_bias(kind, cell, forget_bias, flags["bias"])
