"""Programs as torch operators: one node in a compiled graph, whatever the number of steps; the plain call's results."""

import pytest
import torch
from helpers.program_cells import CELLS
from helpers.references import draw, randomise

from carousel import Recurrent
from carousel.cells.spec import Weights
from carousel.layers import programs
from carousel.ops import backend

B, I, H = 4, 3, 6
LENGTHS = torch.tensor([5, 0, 2, 3])
RESET = torch.rand(5, B, generator=torch.Generator().manual_seed(0)) < 0.3
pytestmark = pytest.mark.skipif(not backend.available(), reason="no kernels")


@pytest.fixture(autouse=True)
def forget_compiled():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def results(layer, run, x, **call):
    output, state = run(x, **call)
    states = state if isinstance(state, tuple) else (state,)
    loss = sum(
        (p * torch.linspace(-1, 1.5, p.numel(), dtype=p.dtype).reshape(p.shape)).sum() for p in (output, *states)
    )
    given = [x, *layer.parameters()]
    return [output, *states, *torch.autograd.grad(loss, given, allow_unused=True, materialize_grads=True)]


@pytest.mark.slow
@pytest.mark.parametrize("name, options, call", [
    ("mgu", {"num_layers": 2, "bidirectional": True}, {"lengths": LENGTHS}),
    ("leaky", {"zoneout": 0.2, "learn_initial_state": True}, {"reset": RESET}),
    ("exponential", {}, {}),
    ("convolved", {"bidirectional": True}, {"lengths": LENGTHS}),
])  # fmt: skip
def test_compiled_calls(name, options, call):
    """Forward and all gradients, in one graph with one operator a layer and direction."""
    layer = randomise(Recurrent(CELLS[name](), I, H, dtype=torch.float64, **options)).eval()
    x, found = draw(5, B, I).requires_grad_(), []

    def watch(graph, inputs):
        found.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph

    torch.compile(layer, backend=watch, fullgraph=True)(x, **call)
    assert found.count("carousel.program") == layer.num_layers * layer.num_directions
    torch.compiler.reset()
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    for one, other in zip(results(layer, compiled, x, **call), results(layer, layer, x, **call), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_nothing_is_unrolled_and_options_are_seen():
    class Slow(CELLS["mgu"]):
        def __init__(self):
            self.rate = 1.0

        def step(self, x, state, w, let):
            (h,) = super().step(x, state, w, let)
            return (self.rate * h,)

    layer, sizes = Recurrent(Slow(), I, H), []

    def count(graph, inputs):
        sizes.append(len(graph.graph.nodes))
        return graph

    compiled = torch.compile(layer, backend=count, fullgraph=True, dynamic=False)
    for steps in (3, 512):
        x = torch.randn(steps, B, I)
        torch.testing.assert_close(compiled(x)[0], layer(x)[0])
    assert sizes[0] == sizes[1] < 30
    layer.cell.rate = 0.5
    torch.testing.assert_close(compiled(x)[0], layer(x)[0])


def test_the_operator_keeps_what_it_promises():
    """Schema, fake kernel and derivative, as torch checks them; what it saves follows from its inputs."""
    layer = randomise(Recurrent(CELLS["leaky"](), I, H, dtype=torch.float64))
    weights = Weights(layer.cell, layer._values_at("_l0"))
    given = programs._hoisted(programs.recipe_of(layer, 0, torch.float64, False), weights)
    given |= {("projected", None): draw(4, B, I)}
    code, row, read = programs.code_of(layer, 0, torch.float64, False, (), False, True)
    states = [draw(B, H, seed=2), draw(B, H, seed=3)]
    tensors = [*(given[what] for what in read), *states, weights.weight_ih, weights.bias_ih]
    some = [t.detach().clone().requires_grad_() for t in tensors]
    present = [1] * (len(read) + 2) + [0, 0, 1, 1]
    args = some, present, code, row, False, True, LENGTHS.clamp(max=4), None, True
    torch.library.opcheck(torch.ops.carousel.program.default, args)
