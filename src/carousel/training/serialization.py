"""Nested dicts, lists and tuples with tensors in them, as one safetensors file; what is no tensor is JSON."""

from __future__ import annotations

import json
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor


def to_bytes(tree: Any) -> bytes:
    """The file that holds `tree`, which is made of dicts, lists, tuples, tensors, numbers, strings, bools and None.

    >>> tree = {"w": torch.ones(2), 3: [1.5, None, (True, "a")]}
    >>> from_bytes(to_bytes(tree))
    {'w': tensor([1., 1.]), 3: [1.5, None, (True, 'a')]}
    """
    tensors: dict[str, Tensor] = {}
    structure = json.dumps(_split(tree, tensors), allow_nan=True)
    return save(tensors, metadata={"tree": structure})


def from_bytes(data: bytes) -> Any:
    """The tree in a file made by `to_bytes`; a ValueError if it is damaged."""
    try:
        tensors = load(data)
        length = int.from_bytes(data[:8], "little")
        structure = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["tree"])
        return _join(structure, tensors)
    except (SafetensorError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"damaged: {error}") from error


def _split(node: Any, tensors: dict[str, Tensor]) -> Any:
    """`node` in JSON's terms: anything but a plain value is a list that begins with its kind."""
    if isinstance(node, Tensor):
        name = str(len(tensors))
        tensors[name] = node.detach().contiguous().clone()
        return ["tensor", name]
    if isinstance(node, dict):
        return ["dict", [[_split(k, tensors), _split(v, tensors)] for k, v in node.items()]]
    if isinstance(node, list | tuple):
        kind = "list" if isinstance(node, list) else "tuple"
        return [kind, [_split(v, tensors) for v in node]]
    if node is None or isinstance(node, bool | int | float | str):
        return node
    raise TypeError(f"a checkpoint holds tensors and plain values, not a {type(node).__name__}: {node!r}")


def _join(node: Any, tensors: dict[str, Tensor]) -> Any:
    if not isinstance(node, list):
        return node
    kind, content = node
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {_join(k, tensors): _join(v, tensors) for k, v in content}
    parts = [_join(v, tensors) for v in content]
    return parts if kind == "list" else tuple(parts)
