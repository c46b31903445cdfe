"""What a checkpoint holds comes back the same, and a file that is damaged says so."""

import contextlib
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from carousel.training import serialization

DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool,
]  # fmt: skip
shapes = st.lists(st.integers(0, 3), max_size=3)
tensors = st.builds(lambda shape, dtype: (torch.randn(shape) * 9).to(dtype), shapes, st.sampled_from(DTYPES))
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
keys = st.text() | st.integers() | st.booleans() | st.none() | st.tuples(st.integers(), st.text())


def nested(children):
    return (
        st.lists(children, max_size=4)
        | st.lists(children, max_size=4).map(tuple)
        | st.dictionaries(keys, children, max_size=4)
    )


trees = st.recursive(plain | tensors, nested, max_leaves=12)


def same(a, b):
    """Equal in kind and value, the order of dictionaries and the last bit included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return a.hex() == b.hex()
    return a == b


@given(trees)
def test_there_and_back(value):
    assert same(serialization.from_bytes(serialization.to_bytes(value)), value)


def test_what_json_cannot_say():
    value = {"inf": [math.inf, -math.inf, math.nan], -0.0: -0.0, 2**80: "\ud800 \0 ü", None: (), True: {}, (1, "a"): []}
    assert same(serialization.from_bytes(serialization.to_bytes(value)), value)


def test_views_of_one_tensor():
    """Tied weights, slices and transposes are kept as they are seen."""
    whole = torch.arange(12.0).reshape(3, 4)
    value = [whole, whole, whole[1:], whole.T, whole[:, 1], whole.requires_grad_()]
    assert same(serialization.from_bytes(serialization.to_bytes(value)), [part.detach() for part in value])


def test_it_is_a_safetensors_file_that_does_not_depend_on_the_day():
    from safetensors.torch import load

    data = serialization.to_bytes({"w": torch.ones(2), "x": 1})
    assert same(list(load(data).values()), [torch.ones(2)])
    assert data == serialization.to_bytes({"w": torch.ones(2), "x": 1})


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", {"a": [torch.float32]}, len, torch.device("cpu")])
def test_anything_else_is_refused(value):
    with pytest.raises(TypeError, match="a checkpoint holds tensors and plain values, not a"):
        serialization.to_bytes(value)


EXAMPLE = serialization.to_bytes({"step": 3, "state": [torch.arange(6.0), (None, 1.5)], "names": {"a": 1}})


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 50, len(EXAMPLE) - 25, len(EXAMPLE) - 1])
def test_cut_short(length):
    with pytest.raises(ValueError, match="damaged"):
        serialization.from_bytes(EXAMPLE[:length])


@given(st.integers(0, len(EXAMPLE) - 1), st.integers(0, 7))
def test_a_flipped_bit_is_a_value_error_or_another_value(place, bit):
    """Whether it is another value, the hash in the file's name tells."""
    data = bytearray(EXAMPLE)
    data[place] ^= 1 << bit
    with contextlib.suppress(ValueError):
        serialization.from_bytes(bytes(data))


@given(st.binary(max_size=60))
def test_bytes_that_are_no_tree(data):
    with pytest.raises(ValueError):
        serialization.from_bytes(data)


def test_a_safetensors_file_that_is_no_tree():
    from safetensors.torch import save

    for metadata in (
        None,
        {"x": "y"},
        {"tree": "["},
        {"tree": '["tensor", "9"]'},
        {"tree": '["dict", 3]'},
        {"tree": "[1]"},
    ):
        with pytest.raises(ValueError):
            serialization.from_bytes(save({"0": torch.ones(1)}, metadata=metadata))
