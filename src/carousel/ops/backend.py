"""The fused kernels: which one this machine runs, or why there is none.

One module is built for each instruction set; the best one that the processor has is loaded on first use.
`CAROUSEL_ISA=generic|avx2|avx512` chooses another.
"""

from __future__ import annotations

import importlib
import math
import os
import platform
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.utils._device import DeviceContext

SETS = ("avx512", "avx2", "generic")  # best first


def supported() -> tuple[str, ...]:
    """The instruction sets this processor runs, best first."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return ("generic",)
    level = torch.backends.cpu.get_cpu_capability()
    return SETS if level.startswith("AVX512") else SETS[1:] if level == "AVX2" else SETS[2:]


@lru_cache(None)
def load() -> tuple[ModuleType | None, str, str]:
    """(module, instruction set, why there is none)."""
    asked = os.environ.get("CAROUSEL_ISA", "").lower() or None
    if asked is not None and asked not in supported():
        reason = "this processor does not run it" if asked in SETS else "there is no such set"
        raise ValueError(f"CAROUSEL_ISA={asked}: {reason}; accepted here: {', '.join(supported())}")
    problem: Exception | None = None
    for name in (asked,) if asked else supported():
        try:
            return importlib.import_module(f"carousel.ops._{name}"), name, ""
        except ImportError as error:
            problem = error
    return None, "", f"the package was built without its fused kernels ({problem}); reinstall with a C++ compiler"


def available() -> bool:
    """Whether there are kernels to run."""
    return load()[0] is not None


def isa() -> str:
    """The instruction set of the kernels in use, or "" without kernels."""
    return load()[1]


def why_not() -> str:
    """What is missing, or "" with kernels."""
    return load()[2]


# Bound once: `unsupported_reason` is on paths of microseconds.
_PLAIN = (Tensor, nn.Parameter)  # `nn.Buffer` makes a plain Tensor
_FLOATS = frozenset((torch.float32, torch.float64))
_INTEGERS = frozenset((torch.int64, torch.bool))  # lengths, targets, masks: beside numbers of either kind
_STRIDED = torch.strided
_TAKES_EMPTY = frozenset(("layer", "step"))  # whose kernels run on no steps and no sequences
_BACKWARD = frozenset(
    f"{op}_backward" for op in ("layer", "linear_cross_entropy", "attend", "dropout", "embedding", "take", "put")
)  # of what may have been called plainly, and be differentiated otherwise
_is_compiling, _is_batched = torch.compiler.is_dynamo_compiling, torch._C._functorch.is_legacy_batchedtensor
_dispatch_modes, _function_modes = torch._C._len_torch_dispatch_stack, torch._C._len_torch_function_stack
_tracing, _autocast = torch._C._get_tracing_state, torch._C._is_any_autocast_enabled
_transforms = torch._C._functorch.peek_interpreter_stack
MISSING = why_not()  # read once: torch.compile would not look past a cached call
_MODES = [_dispatch_modes, _function_modes, _transforms, _tracing, _autocast]  # all false where a call may be native


def describe_torch(module: Any, exchange: Any) -> None:
    """Give the native module what it needs to read and make tensors itself: `exchange` is torch's table of C functions,
    a capsule, or None to use attributes of tensors instead."""
    module.set_torch(_PLAIN, exchange, torch.empty, torch.float32, torch.float64, _MODES, forward_ad)


if not MISSING:
    describe_torch(load()[0], getattr(Tensor, "__dlpack_c_exchange_api__", None))  # torch 2.10 and newer


def unsupported_reason(op: str, *tensors: Tensor | None) -> str | None:
    """Why `op` may not be a native call with the addresses of `tensors` (None: left out), or None if it may.

    A native call reads memory: it needs plain tensors of one dtype, float32 or float64 (int64 and bool aside), on the
    CPU, and nothing that has to see the operations themselves. Otherwise the registered operator (`use_operator`) or
    torch's own operations compute the same.

    >>> unsupported_reason("dropout", torch.zeros(2), torch.zeros(2, dtype=torch.float64))
    'the tensors have different dtypes, torch.float32 and torch.float64'
    """
    if _is_compiling():
        return "torch.compile needs an operator it knows"
    if (
        _dispatch_modes()
        or _function_modes()
        or _transforms() is not None
        or _tracing() is not None
        or _autocast()
        or forward_ad._current_level >= 0
        or MISSING
    ) and (reason := _environment()) is not None:
        return reason
    dtype = None
    for t in tensors:
        if t is None:
            continue
        if type(t) not in _PLAIN or not t.is_cpu:
            return _storage(t)
        if t.dtype is not dtype and t.dtype not in _INTEGERS:
            if dtype is not None:
                return f"the tensors have different dtypes, {dtype} and {t.dtype}"
            dtype = t.dtype
            if dtype not in _FLOATS:
                return f"the kernels take float32 and float64, not {dtype}"
    return None if op == "step" else _contents(op, tensors)


def autograd_records() -> bool:
    """Whether autograd records: not in inference mode, even where gradients are enabled inside it."""
    return torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def use_operator(*tensors: Tensor | None) -> bool:
    """Whether the registered torch operator computes what a native call may not: it has a fake kernel and a derivative.

    So it is under `torch.compile` and `torch.export`, and for dispatch modes and tensor subclasses that handle
    operators themselves: `make_fx`, `FakeTensorMode`, FLOP counters, a logging mode, `TwoTensor`. Transforms of
    `torch.func`, forward-mode differentiation, `torch.jit.trace` and autocast need the single operations.
    """
    # not the interpreter stack: to torch.compile that is never None
    if MISSING or _autocast() or torch._C._functorch.maybe_current_level() is not None:
        return False
    if not _is_compiling() and (_tracing() is not None or forward_ad._current_level >= 0):
        return False
    given = [t for t in tensors if t is not None]
    dtypes = {t.dtype for t in given if t.dtype not in _INTEGERS}
    if len(dtypes) != 1 or dtypes.pop() not in _FLOATS:
        return False
    if any(t.device.type != "cpu" or t.layout is not _STRIDED for t in given):
        return False
    return _is_compiling() or all(_knows_operators(type(t)) and not _is_batched(t) for t in given)


def has_values(t: Tensor) -> bool:
    """Whether the numbers of `t` may be read: not while a program is recorded that will run on other numbers."""
    if _is_compiling() or _tracing() is not None or t.is_meta:
        return False
    if _dispatch_modes() and any(torch._C._get_dispatch_mode(key) is not None for key in _RECORDERS):
        return False
    if _function_modes() and torch._ops._len_torch_dispatch_stack_pre_dispatch():
        return False
    return type(t) in _PLAIN or type(t).__torch_dispatch__ is Tensor.__torch_dispatch__


_RECORDERS = (
    torch._C._TorchDispatchModeKey.PROXY,
    torch._C._TorchDispatchModeKey.FAKE,
    torch._C._TorchDispatchModeKey.FUNCTIONAL,
)


def _environment() -> str | None:
    """What is on in this thread that a native call would not do justice to."""
    if MISSING:
        return MISSING
    if _autocast():
        return "autocast is on"
    if _transforms() is not None:
        return "torch.func transforms need to see every operation"
    if forward_ad._current_level >= 0:
        return "forward-mode differentiation needs to see every operation"
    if _tracing() is not None:
        return "torch.jit.trace needs to see every operation"
    if _dispatch_modes():
        return f"{type(torch._C._get_dispatch_stack_at(_dispatch_modes() - 1)).__name__} needs to see every operation"
    for at in range(_function_modes()):
        mode = type(torch._C._get_function_stack_at(at))
        if mode is not DeviceContext:  # torch.set_default_device: only says where new tensors are made
            return f"{mode.__name__} needs to see every operation"
    return None


def _storage(t: Tensor) -> str | None:
    """What kind of tensor `t` is, other than a plain one whose memory holds its numbers."""
    if type(t) not in _PLAIN:
        return f"{type(t).__name__} is a tensor subclass, which handles operations itself"
    if not t.is_cpu:
        return f"the kernels run on CPUs, the input is on {t.device}"
    if t.layout is not _STRIDED:
        return f"the kernels take strided tensors, not {t.layout}"
    return "the tensor is a view that negates another"


def _contents(op: str, tensors: tuple[Tensor | None, ...]) -> str | None:
    """What the memory of `tensors` holds, if not simply their numbers.

    Not for `step`, whose caller has asked whether they are contiguous: no other layout is, and no view that negates but
    of a single number.
    """
    takes_empty, backward = op in _TAKES_EMPTY, op in _BACKWARD
    for t in tensors:
        if t is None:
            continue
        if t.layout is not _STRIDED or t.is_neg():
            return _storage(t)
        if backward and _is_batched(t):
            return "is_grads_batched needs to see every operation"
        if not takes_empty and not t.numel():
            return f"{op} has no kernel for empty tensors"
    return None


@lru_cache(None)
def _knows_operators(kind: type) -> bool:
    """Whether tensors of a class can be given to an operator that the class has never heard of.

    A class that overrides either the functions or the operators passes on what it does not know; one that overrides
    both, like `MaskedTensor` and quantized weights, and those of `torch.distributed` keep lists of what they know.
    """
    if kind.__module__.startswith("torch.distributed"):
        return False
    functions = kind.__torch_function__  # type: ignore[attr-defined]
    own_functions = functions is not _disabled and getattr(functions, "__func__", None) is not _default
    own_operators = kind.__torch_dispatch__ is not Tensor.__torch_dispatch__  # type: ignore[attr-defined]
    return not (own_functions and own_operators)


_disabled, _default = torch._C._disabled_torch_function_impl, Tensor.__torch_function__.__func__  # type: ignore[attr-defined]


def gradients_by_reference(
    run: Callable[[Any], Sequence[Tensor]],
    tensors: Sequence[Tensor | None],
    grads: Sequence[Tensor | None],
    wanted: Sequence[bool],
) -> list[Tensor | None]:
    """The gradients of `tensors`, those `wanted`, by torch's own operations, so that they can be differentiated again.

    `run(tensors)` computes the results, `grads` are theirs. Where one of the tensors was computed from another (keys
    from values, hidden states from a tied weight), its gradient must not continue into the other's: that is autograd's
    part. So each is a view here, with no history but itself.
    """
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        own = [t.view_as(t) if w and t is not None else t for t, w in zip(tensors, wanted, strict=True)]
        pairs = [(r, g) for r, g in zip(run(own), grads, strict=True) if g is not None and r.requires_grad]
        inputs = [t for t, w in zip(own, wanted, strict=True) if w and t is not None]
        results, known = [r for r, _ in pairs], [g for _, g in pairs]
        found = iter(torch.autograd.grad(results, inputs, known, create_graph=again, allow_unused=True))
    return [next(found) if w and t is not None else None for t, w in zip(tensors, wanted, strict=True)]


def empty_from_pool(like: Tensor, *shape: int) -> Tensor:
    """An uninitialised tensor (*shape) with the dtype of `like`, float32 or float64, on the CPU.

    A large one comes from the kernels' own pool, so that its pages are not new at every call.
    """
    size = math.prod(shape)
    native = load()[0]
    if size < 1 << 16 or native is None:
        return like.new_empty(shape)
    flat: Tensor = (native.empty_from_pool32 if like.dtype == torch.float32 else native.empty_from_pool64)(size)
    return flat.view(shape)
