"""Calls of our operators, and torch's own checks of them."""

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only


def recorded(call):
    """The calls of our operators in `call`, as (operator, arguments)."""
    seen = []

    class Record(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func.namespace == "carousel":
                seen.append((func, args))
            return func(*args, **(kwargs or {}))

    with Record():
        call()
    return seen


def check(func, args):
    if "backward" in str(func):  # it is not differentiated again
        args = tree_map_only(Tensor, Tensor.detach, args)
    results = torch.library.opcheck(func, args)
    assert set(results.values()) == {"SUCCESS"} and len(results) == 4
