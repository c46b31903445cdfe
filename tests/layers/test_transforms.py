"""torch's transforms see through every layer: compile, torch.func, double backward, autocast."""

import pytest
import torch
from helpers.references import KINDS, build, close, draw, states_of
from torch import nn
from torch.func import functional_call, grad, jacrev, vmap

import carousel

I, H, T, B = 2, 3, 3, 4
LENGTHS = torch.tensor([3, 0, 1, 2])

kinds = pytest.mark.parametrize("kind", KINDS)


def loss_of(layer, x, **options):
    """One number that every output and state has a part in, each a different one."""
    output, state = layer(x, **options)
    return sum((v * v.new_tensor(range(v.numel())).cos().view_as(v)).sum() for v in (output, *states_of(state)))


def gradients(layer, loss):
    """By parameter name; zero where the loss does not depend on it."""
    found = torch.autograd.grad(loss, list(layer.parameters()), materialize_grads=True)
    return {name: g for (name, _), g in zip(layer.named_parameters(), found, strict=True)}


def same(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


# ---- compile ----


@pytest.fixture(autouse=True)
def forget_compiled():
    yield
    torch.compiler.reset()


@kinds
def test_compiles_in_one_graph(kind):
    """With lengths and restarts, forward and backward, through AOT autograd."""
    layer = build(kind, I, H, bidirectional=True)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x, options = draw(T, B, I), {"lengths": LENGTHS, "reset": draw(T, B, seed=2) > 0.5}
    expected, found = loss_of(layer, x, **options), loss_of(compiled, x, **options)
    same(found, expected)
    same(gradients(layer, found), gradients(layer, expected))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options"),
    [("lstm", {"batch_first": True, "num_layers": 2}), ("gru", {"zoneout": 0.2, "merge": "sum"})],
    ids=["lstm", "gru"],
)
def test_compiles_other_calls(kind, options):
    """A given state, unbatched input, another batch size, other options: still one graph each."""
    layer = build(kind, I, H, bidirectional=True, **options).eval()
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    for shape in ((T, B, I), (T, I), (T, B + 1, I)):
        size = [shape[0 if layer.batch_first else 1]] if len(shape) == 3 else []
        hx = tuple(draw(2 * layer.num_layers, *size, H, seed=k) for k in range(len(layer.cell.states)))
        hx = hx if len(hx) > 1 else hx[0]
        close(compiled(draw(*shape), hx), layer(draw(*shape), hx))


def test_compiled_lengths_are_still_checked():
    compiled = torch.compile(build("gru", I, H), fullgraph=True, backend="eager")
    with pytest.raises(RuntimeError, match="lengths must lie between 0 and the number of steps of the input"):
        compiled(draw(T, B, I), lengths=LENGTHS + 1)


def test_a_graph_names_the_lengths_of_the_rows_it_saves():
    """They differ between instruction sets, and torch keeps compiled graphs on disk, by what the graph says."""
    graphs, saved = [], []

    class Interpreter(torch.fx.Interpreter):
        def call_function(self, target, args, kwargs):
            result = super().call_function(target, args, kwargs)
            if "carousel" in str(target):
                *_, values, cells = result
                saved.append([values.shape[-1], cells.shape[-1]])
                assert saved[-1] in [list(arg) for arg in args if isinstance(arg, list | tuple)]
            return result

    def backend(graph, inputs):
        graphs.append(graph)
        return Interpreter(graph).run

    layer, x = build("lstm", I, 9), draw(T, B, I)
    close(torch.compile(layer, fullgraph=True, backend=backend)(x), layer(x))
    assert len(graphs) == len(saved) == 1


@pytest.mark.slow
def test_compiles_to_machine_code():
    """Nine units: their rows differ in length between instruction sets, none of which may run another's cached code."""
    layer, x = build("lstm", I, 9), draw(2, B, I)
    close(torch.compile(layer, fullgraph=True)(x, lengths=[2, 0, 1, 2]), layer(x, lengths=[2, 0, 1, 2]))


# ---- torch.func ----


@pytest.mark.parametrize("with_lengths", [False, True], ids=["whole", "lengths"])
@kinds
def test_per_sample_gradients_equal_a_loop(kind, with_lengths):
    layer = build(kind, I, H, num_layers=2, bidirectional=True)
    weights, samples = dict(layer.named_parameters()), draw(B, T, I)

    def loss(weights, x, length):
        options = {"lengths": length} if with_lengths else {}
        return loss_of(lambda *a, **k: functional_call(layer, weights, a, k), x, **options)

    found = vmap(grad(loss), (None, 0, 0))(weights, samples, LENGTHS)
    for at, (x, length) in enumerate(zip(samples, LENGTHS, strict=True)):
        options = {"lengths": length} if with_lengths else {}
        same({name: g[at] for name, g in found.items()}, gradients(layer, loss_of(layer, x, **options)))


def test_lengths_are_checked_under_vmap():
    layer = build("lstm", I, H)
    with pytest.raises(ValueError, match=r"lengths.* is 4, but must lie between 0 and the 3 steps"):
        vmap(lambda x, length: layer(x, lengths=length)[0])(draw(B, T, I), LENGTHS + 1)


@kinds
def test_an_ensemble_by_vmap(kind):
    """Several layers' weights at once on one batch: the layer itself under vmap, not the samples."""
    layers = [build(kind, I, H, seed=seed) for seed in range(3)]
    stacked, _ = torch.func.stack_module_state(layers)
    x = draw(T, B, I)
    found = vmap(lambda w: functional_call(layers[0], w, (x,))[0])(stacked)
    close(found, torch.stack([layer(x)[0] for layer in layers]))


@kinds
def test_jacrev_equals_autograd_row_by_row(kind):
    layer, x = build(kind, I, H), draw(T, I).requires_grad_()
    output, _ = layer(x)
    rows = [torch.autograd.grad(value, x, retain_graph=True)[0] for value in output.flatten()]
    found = jacrev(lambda x: layer(x)[0])(x.detach())
    same(found, torch.stack(rows).view(T, H, T, I))
    assert all((found[t, :, t + 1 :] == 0).all() for t in range(T)), "the future has no part in the past"


# ---- double backward ----


@pytest.mark.parametrize("lengths", [None, [2, 1]], ids=["whole", "lengths"])
@kinds
def test_double_backward(kind, lengths):
    layer = build(kind, I, H, bidirectional=True)
    x = draw(2, 2, I).requires_grad_()
    hx = [draw(2, 2, H, seed=k).requires_grad_() for k in range(len(layer.cell.states))]

    def call(x, *given):
        hx = given[: len(layer.cell.states)]
        output, state = layer(x, hx if len(hx) > 1 else hx[0], lengths=lengths)
        return output, *states_of(state)

    inputs = (x, *hx, *layer.parameters())
    assert torch.autograd.gradcheck(call, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(call, inputs, fast_mode=True)


def test_hessian_of_a_standard_cell_equals_torchs():
    theirs = nn.GRU(I, H, dtype=torch.float64)
    ours, x = carousel.GRU.from_torch(theirs), draw(T, I)
    expected, found = (torch.autograd.functional.hessian(lambda x, m=m: m(x)[0].cos().sum(), x) for m in (theirs, ours))
    close(found, expected)


# ---- autocast ----


@pytest.mark.parametrize("weights", [torch.float32, torch.bfloat16], ids=str)
@kinds
def test_autocast_runs_near_full_precision(kind, weights):
    """float32 input, with weights in either precision, as torch allows under autocast."""
    exact = build(kind, I, H, num_layers=2, bidirectional=True)
    layer = build(kind, I, H, num_layers=2, bidirectional=True).to(weights)
    x = draw(T, B, I)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, _ = layer(x.float(), lengths=LENGTHS)
    close(output.double(), exact(x, lengths=LENGTHS)[0], rtol=0.1, atol=0.1)
    output.float().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("name", ["RNN", "GRU"])  # torch's LSTM needs a processor with bfloat16
def test_autocast_gives_torchs_dtypes(name):
    theirs = getattr(nn, name)(I, H)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected, found = (m(torch.randn(T, B, I)) for m in (theirs, getattr(carousel, name).from_torch(theirs)))
    assert [v.dtype for v in found] == [v.dtype for v in expected]
