"""A model is in eval mode while it is used, and in its own mode before, between and after."""

import pytest
from torch import nn

from carousel.training.modes import each_evaluating, evaluating, in_eval_mode


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = nn.Dropout()

    @property
    def modes(self):
        return [module.training for module in self.modules()]

    @in_eval_mode
    def once(self, value):
        """As it is."""
        return value, self.modes

    @in_eval_mode
    def several(self):
        yield self.modes
        yield self.modes


@pytest.fixture
def model():
    """Half of it is in eval mode already."""
    model = Model()
    model.part.eval()
    return model


def test_for_a_while_and_after_an_error(model):
    other = nn.Linear(1, 1)
    with pytest.raises(KeyError), evaluating(model, other):
        assert model.modes == [False, False] and not other.training
        raise KeyError
    assert model.modes == [True, False] and other.training


def test_methods(model):
    assert model.once(3) == (3, [False, False])
    assert model.modes == [True, False]
    assert Model.once.__doc__ == "As it is."


def test_methods_that_yield(model):
    pieces = model.several()
    assert next(pieces) == [False, False]
    assert model.modes == [True, False]  # in between
    assert list(pieces) == [[False, False]]
    assert list(each_evaluating(model, iter([]))) == []
    assert model.modes == [True, False]
