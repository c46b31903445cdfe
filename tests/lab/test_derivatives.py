"""Derivatives of a step in closed form: against autograd of whole layers, and differences in numpy."""

import numpy as np
import pytest
import torch
from helpers.lab import through_time
from helpers.own_cells import OWN
from helpers.references import KINDS, build, draw

from carousel.lab.cells import CELLS
from carousel.lab.derivatives import StepDerivatives, has_derivative

STEPWISE = [kind for kind in KINDS if kind != "rnn-relu"]  # which has no derivative at 0


@pytest.mark.parametrize("kind", STEPWISE)
@pytest.mark.parametrize("back", [1, 3])
def test_a_product_of_closed_forms_is_the_derivative_of_the_layer(kind, back):
    layer, x = build(kind), draw(6, 1, 3)
    derivatives = StepDerivatives(layer, x)
    product = torch.eye(sum(derivatives.sizes), dtype=torch.float64)
    for t in range(5, 5 - back, -1):
        product = product @ derivatives.jacobian(t)
    torch.testing.assert_close(product, through_time(layer, x, back), atol=1e-12, rtol=1e-9)


@pytest.mark.usefixtures("own_cells")
@pytest.mark.parametrize("name", OWN)
def test_the_derivative_of_a_step_agrees_with_differences_of_the_same_equations_in_numpy(name):
    torch.manual_seed(0)
    _, step = OWN[name]
    layer = CELLS[name].layer(3, 4, dtype=torch.float64)
    x = torch.randn(5, 1, 3, dtype=torch.float64)
    derivatives, t = StepDerivatives(layer, x), 3
    weights = {n: v.detach().numpy() for n, v in layer._parameters_of(0, 0).items()}
    past = x[[t - 1, t - 2]].transpose(0, 1).numpy()
    side = {n: np.ones((1, *layer.side_shape(n))) for n in layer.cell.side_inputs}
    before = [part.numpy() for part in derivatives.before(t)]

    def flat(state):
        return np.concatenate([(p.view(float) if np.iscomplexobj(p) else p).ravel() for p in state])

    def after(vector):
        state, at = [], 0
        for part in before:
            size = part.size * (2 if np.iscomplexobj(part) else 1)
            state.append(vector[at : at + size].copy().view(part.dtype).reshape(part.shape))
            at += size
        return flat([np.ascontiguousarray(p) for p in step(weights, x[t].numpy(), past, side, state, lambda n, v: v)])

    start, size = flat(before), len(flat(before))
    columns = [(after(start + 1e-6 * e) - after(start - 1e-6 * e)) / 2e-6 for e in np.eye(size)]
    np.testing.assert_allclose(derivatives.jacobian(t).numpy(), np.stack(columns, 1), atol=1e-8)


@pytest.mark.usefixtures("own_cells")
def test_a_cell_that_replaces_a_step_does_not_inherit_its_derivative():
    lstm = CELLS["lstm"].cell
    assert has_derivative(lstm)

    class Doubled(type(lstm)):
        def step(self, x, state, w, let):
            h, c = super().step(x, state, w, let)
            return 2 * h, c

    class Named(type(lstm)):
        label = "mine"

    assert not has_derivative(Doubled())
    assert has_derivative(Named())
    assert all(has_derivative(kind.cell) for name, kind in CELLS.items() if name not in OWN)
