"""One step of a cell with random weights, by the cell and by the equations in numpy."""

import torch

from carousel.cells import Weights
from carousel.cells.spec import Sizes

from .references import draw, equations

I, H, B = 3, 4, 5


def random_parameters(cell, projected=H, bias=True):
    shapes = cell.parameters(Sizes(I, H, projected, bias))
    return {name: 0.6 * draw(*shape, seed=k) for k, (name, shape) in enumerate(shapes.items())}


def step(cell, parameters, x, state):
    """Every value that the cell names, and its new state."""
    w, named = Weights(cell, parameters), {}

    def let(name, value):
        return named.setdefault(name, value)

    return named, cell.step(cell.inputs(cell.project_input(x, w)), state, w, let)


def compare(kind, cell, **sizes):
    """One step against the equations of `kind`; the cell's parameters, input and state for further checks."""
    parameters = random_parameters(cell, **sizes)
    size = {name: sizes.get("projected", H) if name == "h" else H for name in cell.states}
    x, state = draw(B, I, seed=20), tuple(draw(B, size[name], seed=30 + k) for k, name in enumerate(cell.states))
    named, new = step(cell, parameters, x, state)
    arrays = {name: value.numpy() for name, value in parameters.items()}
    expected = equations(kind, arrays, x.numpy(), tuple(s.numpy() for s in state))
    assert named.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(named[name], torch.as_tensor(value), rtol=1e-9, atol=1e-11)
    assert all(torch.equal(s, named[name]) for name, s in zip(cell.states, new, strict=True))
    return parameters, x, state, new


def initialised(cell, forget_bias, hidden=H):
    """The parameters as the cell sets them."""
    sizes = Sizes(I, hidden, hidden)
    parameters = {name: torch.full(shape, 9.0) for name, shape in cell.parameters(sizes).items()}
    cell.initialise(parameters, sizes, forget_bias)
    return parameters
