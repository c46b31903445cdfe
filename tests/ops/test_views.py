"""Parts of memory by name."""

import copy
import pickle

import pytest
import torch

from carousel.ops.views import Views


def test_parts_are_views_of_their_memory():
    memory = torch.arange(12.0).reshape(3, 4)
    views = Views({"a": (memory, 0, 1), "b": (memory, 1, 3)})
    assert list(views) == ["a", "b"] and len(views) == 2 and "b" in views and "c" not in views
    assert torch.equal(views["b"], memory[:, 1:]) and views["b"].data_ptr() == memory[:, 1:].data_ptr()
    with pytest.raises(KeyError, match="c"):
        views["c"]


def test_copies_have_memory_of_their_own():
    memory = torch.ones(2, 2)
    views = Views({"a": (memory, 1, 1)})
    for other in (copy.deepcopy(views), pickle.loads(pickle.dumps(views))):
        memory.zero_()
        assert torch.equal(other["a"], torch.ones(2, 1))
        memory.fill_(1)
