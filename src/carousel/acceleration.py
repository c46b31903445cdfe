"""Other people's programs, run by our kernels: a model in place, or every layer that a program will construct."""

from __future__ import annotations

import copy
import functools
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from torch import nn

from .layers import drop_in

M = TypeVar("M", bound=nn.Module)
logger = logging.getLogger(__name__)


class Entry(NamedTuple):
    """One recurrent module of a model."""

    name: str  # in the model; "" is the model itself
    kind: str  # its class
    reason: str | None  # why it is not accelerated; None if it is

    @property
    def accelerated(self) -> bool:
        return self.reason is None


class Report(tuple[Entry, ...]):
    """The recurrent modules of a model and why each is or is not accelerated; prints as a table."""

    @property
    def left_alone(self) -> Report:
        """Those that are not accelerated."""
        return Report(entry for entry in self if not entry.accelerated)

    def __str__(self) -> str:
        if not self:
            return "no recurrent modules"
        rows = [("module", "class", "runs in")]
        rows += [(e.name or "(model)", e.kind, "Carousel" if e.accelerated else f"as before: {e.reason}") for e in self]
        widths = [max(len(row[k]) for row in rows) for k in range(2)]
        lines = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c}" for a, b, c in rows]
        return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])

    __repr__ = __str__


def accelerate(model: M, *, inplace: bool = True) -> M:
    """Make every `nn.RNN`, `nn.LSTM`, `nn.GRU` and cell in `model` run in Carousel's kernels, and return the model.

    Each module keeps its identity, parameters, hooks, parametrizations, mode and name; only its class changes, to one
    that is torch's and ours at once. Optimizers made before stay right, `state_dict` has the same keys, results are the
    same within rounding. What cannot run in the kernels (on a GPU, bfloat16, quantized, scripted, subclasses with code
    of their own) is left alone, with a warning in the log; `accelerated(model)` is a table of all of them and
    `restore(model)` undoes it. `inplace=False` leaves `model` as it is and changes a copy.

    >>> model = nn.ModuleDict({"rnn": nn.LSTM(10, 20), "head": nn.Linear(20, 2)})
    >>> y, _ = carousel.accelerate(model)["rnn"](torch.randn(5, 3, 10))
    >>> print(carousel.accelerated(model))
    module  class  runs in
    -----------------------
    rnn     LSTM   Carousel
    """
    _check_model("accelerate", model)
    model = model if inplace else copy.deepcopy(model)
    for name, module in model.named_modules():
        if not drop_in.is_recurrent(module) or drop_in.is_accelerated(module):
            continue
        reason = drop_in.unsupported_reason(module)
        if reason is None:
            drop_in.to_ours(module)
        else:
            logger.warning("accelerate left %s (%s) alone: %s", name or "the model", type(module).__name__, reason)
    logger.info("accelerate:\n%s", accelerated(model))
    return model


def restore(model: M) -> M:
    """Undo `accelerate`: the modules it changed are torch's again, with the parameters they have now.

    >>> model = carousel.restore(carousel.accelerate(nn.GRU(10, 20)))
    >>> type(model)
    <class 'torch.nn.modules.rnn.GRU'>
    """
    _check_model("restore", model)
    for module in model.modules():
        if drop_in.is_accelerated(module):
            drop_in.to_torch(module)
    return model


def accelerated(model: nn.Module) -> Report:
    """Which recurrent modules of `model` run in Carousel, and why the others do not."""
    _check_model("accelerated", model)
    entries = []
    for name, module in model.named_modules():
        if drop_in.is_recurrent(module):
            reason = None if drop_in.is_accelerated(module) else drop_in.unsupported_reason(module)
            if reason is None and not drop_in.is_accelerated(module):
                reason = "call carousel.accelerate(model)"
            entries.append(Entry(name, getattr(module, "original_name", type(module).__name__), reason))
    return Report(entries)


def _check_model(function: str, model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"{function} takes a torch.nn.Module, got {type(model).__name__}")


# ---- programs that construct their layers themselves ----

_originals: dict[type[nn.Module], Any] = {}  # constructors while a patch is on
_patches = 0


class patch:
    """From here on `nn.LSTM(…)`, `nn.GRU(…)`, `nn.RNN(…)` and the cells give accelerated modules, wherever a program
    constructs them and by whatever name it imported the class; until `undo()`, or the end of a `with` block.

    Weights are those that torch would have drawn. Subclasses are left alone, and so are modules on other devices.
    Modules made meanwhile stay accelerated afterwards; `restore` undoes that.

    >>> with carousel.patch():
    ...     model = nn.Sequential(nn.LSTM(10, 20))
    >>> isinstance(model[0], nn.LSTM), isinstance(model[0], carousel.LSTM)
    (True, True)
    """

    def __init__(self) -> None:
        global _patches
        self._on = True
        _patches += 1
        if _patches == 1:
            for torch_class in drop_in.TWINS:
                _originals[torch_class] = torch_class.__init__
                torch_class.__init__ = _accelerating(torch_class, torch_class.__init__)  # type: ignore[method-assign]

    def undo(self) -> None:
        """End this patch; torch's constructors are back when the last one ends. A second call does nothing."""
        global _patches
        if not self._on:
            return
        self._on = False
        _patches -= 1
        if _patches == 0:
            for torch_class, original in _originals.items():
                torch_class.__init__ = original  # type: ignore[method-assign]
            _originals.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.undo()


def _accelerating(torch_class: type[nn.Module], original: Callable[..., None]) -> Callable[..., None]:
    """The constructor `original`, after which the module is ours."""

    @functools.wraps(original)
    def __init__(self: nn.Module, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        if type(self) is torch_class and not drop_in.converting() and drop_in.unsupported_reason(self) is None:
            drop_in.to_ours(self)

    return __init__
