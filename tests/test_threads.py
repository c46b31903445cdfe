"""The number of torch's threads, for a while."""

import pytest
import torch

from carousel.threads import threads


def test_for_a_while():
    before = torch.get_num_threads()
    with threads(before + 1):
        assert torch.get_num_threads() == before + 1
        with threads(None):
            assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_an_error_gives_them_back():
    before = torch.get_num_threads()
    with pytest.raises(KeyError), threads(before + 1):
        raise KeyError
    assert torch.get_num_threads() == before
