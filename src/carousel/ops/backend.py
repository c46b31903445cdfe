"""The fused kernels: which one this machine runs, or why there is none.

One module is built for each instruction set; the best one that the processor has is loaded on first use.
`CAROUSEL_ISA=generic|avx2|avx512` chooses another.
"""

from __future__ import annotations

import importlib
import os
import platform
from functools import lru_cache
from types import ModuleType

import torch
from torch.autograd import forward_ad

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


def transformed() -> bool:
    """Whether a transform of `torch.func` or forward-mode differentiation needs to see every operation."""
    return torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0


def takes(*tensors: torch.Tensor) -> bool:
    """Whether a native call may have these: plain numbers of one kind on the CPU, and nobody who needs to see more."""
    kind = tensors[0].dtype
    if load()[0] is None or kind not in (torch.float32, torch.float64):
        return False
    if any(not t.is_cpu or t.dtype is not kind or not t.numel() for t in tensors):
        return False
    return not torch.compiler.is_compiling() and not transformed()
