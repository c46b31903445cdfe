"""Each cell's hand-derived backward, against autograd of its step and against float64 finite differences."""

from types import SimpleNamespace

import pytest
import torch
from helpers.references import KINDS, PROJECTING, build, close, draw, parameters, states_of

from carousel.cells import Weights
from carousel.cells.spec import add_gradients

CASES = [
    *(pytest.param(kind, {}, False, id=kind) for kind in KINDS),
    *(pytest.param(kind, {"bias": False}, False, id=f"{kind}-no-bias") for kind in KINDS),
    *(pytest.param(kind, {}, True, id=f"{kind}-recurrent-dropout") for kind in KINDS),
    *(pytest.param(kind, {"proj_size": 2}, False, id=f"{kind}-projection") for kind in PROJECTING),
    *(pytest.param(kind, {"proj_size": 2, "bias": False}, True, id=f"{kind}-all") for kind in PROJECTING),
]
B, I, H = 2, 2, 3


class OneStep:
    """One step of a cell as a function of x, the previous state, the parameters, and a nudge to each named value.

    The derivative with respect to a (zero) nudge is the derivative with respect to the gate or state it is added to.
    """

    def __init__(self, kind, options, masked):
        layer = build(kind, I, H, **options)
        self.cell, self.names = layer.cell, KINDS[kind].names
        self.own = {name: p.detach() for name, p in parameters(layer).items()}
        sizes = {name: layer.state_shape(name)[0] if name in layer.cell.states else H for name in self.names}
        self.mask = torch.tensor([[2.0, 0, 2], [0, 2, 2]], dtype=torch.float64)[:, : sizes["h"]] if masked else None
        previous = [draw(B, sizes[name], seed=k) for k, name in enumerate(layer.cell.states)]
        nudges = [torch.zeros(B, sizes[name], dtype=torch.float64) for name in self.names]
        self.inputs = [v.requires_grad_() for v in (draw(B, I, seed=9), *previous, *self.own.values(), *nudges)]

    def read(self, inputs):
        inputs = iter(inputs)
        x = next(inputs)
        previous = tuple(next(inputs) for _ in self.cell.states)
        w = Weights(self.cell, {name: next(inputs) for name in self.own}, self.mask)
        return x, previous, w, dict(zip(self.names, inputs, strict=True))

    def forward(self, *inputs):
        x, previous, w, nudges = self.read(inputs)
        self.named = {}

        def let(name, value):
            self.named[name] = value + nudges[name]
            return self.named[name]

        return self.cell.step(self.cell.inputs(self.cell.project_input(x, w)), previous, w, let)

    def by_hand(self):
        """`forward` as an autograd function with the cell's own `backward` and `project_input_backward`."""
        case = self

        class Hand(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *inputs):
                ctx.save_for_backward(*inputs)
                return case.forward(*inputs)

            @staticmethod
            def backward(ctx, *d):
                case.forward(*ctx.saved_tensors)  # the values named at this point
                x, previous, w, _ = case.read(ctx.saved_tensors)
                found = case.cell.backward(d, SimpleNamespace(**case.named), previous, w)
                dx, driven = case.cell.project_input_backward(torch.cat(found.x, -1), x, w)
                grads = add_gradients(found.weights, driven)
                assert grads.keys() == case.own.keys()
                assert found.values.keys() == set(case.names)
                return dx, *found.state, *(grads[n] for n in case.own), *(found.values[n] for n in case.names)

        return Hand.apply


@pytest.mark.parametrize("kind, options, masked", CASES)
def test_backward_equals_autograd(kind, options, masked):
    case = OneStep(kind, options, masked)
    found = []
    for function in (case.by_hand(), case.forward):
        out = function(*case.inputs)
        loss = sum((s * draw(*s.shape, seed=20 + k)).sum() for k, s in enumerate(out))
        found.append(torch.autograd.grad(loss, case.inputs))
    close(*found)


@pytest.mark.parametrize("kind, options, masked", CASES)
def test_backward_equals_finite_differences(kind, options, masked):
    case = OneStep(kind, options, masked)
    assert torch.autograd.gradcheck(case.by_hand(), case.inputs, eps=1e-6, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind, options", [(k, {}) for k in KINDS] + [(k, {"proj_size": 2}) for k in PROJECTING])
def test_backpropagation_through_time(kind, options):
    """`backward` step by step from the last to the first gives every gradient that autograd gives the layer."""
    layer = build(kind, I, H, learn_initial_state=True, **options)
    x = draw(6, B, I).requires_grad_()
    output, state = layer(x)
    d_output, d_state = draw(*output.shape, seed=2), [draw(*s[0].shape, seed=3) for s in states_of(state)]
    loss = (output * d_output).sum() + sum((s[0] * d).sum() for s, d in zip(states_of(state), d_state, strict=True))
    loss.backward()

    own, trace = {n: p.detach() for n, p in parameters(layer).items()}, layer.trace(x)
    w, named = Weights(layer.cell, own), {**trace.gates, **trace.states}
    initial = tuple(own[f"initial_{name}"].expand(B, -1) for name in layer.cell.states)
    grads, d_drive = {}, [None] * len(x)
    for t in reversed(range(len(x))):
        d_state[0] = d_state[0] + d_output[t]
        previous = tuple(trace.states[name][0, t - 1] for name in layer.cell.states) if t else initial
        at = SimpleNamespace(**{name: values[0, t] for name, values in named.items()})
        found = layer.cell.backward(tuple(d_state), at, previous, w)
        grads, d_state, d_drive[t] = add_gradients(grads, found.weights), list(found.state), torch.cat(found.x, -1)
    dx, driven = layer.cell.project_input_backward(torch.stack(d_drive), x.detach(), w)
    grads |= driven | {f"initial_{name}": d.sum(0) for name, d in zip(layer.cell.states, d_state, strict=True)}
    close(dx, x.grad)
    assert grads.keys() == own.keys()
    for name, parameter in parameters(layer).items():
        close(grads[name], parameter.grad)
