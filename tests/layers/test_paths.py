"""Which code runs a call, and why."""

import copy
import pickle

import pytest
import torch
from helpers.own_cells import OWN
from helpers.references import KINDS, build, draw

from carousel import Recurrent
from carousel.layers.paths import ExecutionPath

T, B, I = 4, 3, 3


@pytest.mark.parametrize("kind", KINDS)
def test_path_says_what_runs_and_why(kind):
    path = build(kind).path(draw(T, B, I), lengths=[1, 2, 0])
    assert path in ("fused", "reference")  # no CUDA here
    assert len(path.why) > 10
    assert repr(path) == f"{path}: {path.why}"
    assert pickle.loads(pickle.dumps(path)).why == path.why
    with pytest.raises(RuntimeError, match="input_size"):
        build(kind).path(draw(T, B, I + 1))


def test_path_says_why():
    layer = Recurrent(OWN["own-linear"][0](), I, 4, dtype=torch.float64)
    path = layer.path(draw(T, B, I))
    assert path == "reference" and "LinearRecurrence" in path.why


def test_a_path_is_its_name_and_keeps_its_reason():
    path = ExecutionPath("reference", "the input is complex")
    assert path == "reference" and path in {"reference"} and path.upper() == "REFERENCE"
    again = copy.deepcopy(path)
    assert (again, again.why, repr(again)) == (path, path.why, "reference: the input is complex")
