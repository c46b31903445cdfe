"""Whatever records, replaces or watches torch's operations gets the right numbers, or one clear error."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.func import functional_call, grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.testing import assert_close
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import carousel

I, H, T, B = 3, 5, 4, 2


class Minimal(carousel.Cell):
    gates = ("f", "n")
    states = ("h",)

    def step(self, x, state, w, let):
        (h,) = state
        f = let("f", torch.sigmoid(x.f + w.U(h, "f")))
        n = let("n", torch.tanh(x.n + w.U(f * h, "n")))
        return (let("h", (1 - f) * h + f * n),)


LAYERS = {
    "lstm": carousel.LSTM,
    "gru": carousel.GRU,
    "rnn": carousel.RNN,
    "peephole": carousel.PeepholeLSTM,
    "layernorm": carousel.LayerNormLSTM,
    "own": lambda *sizes, **options: carousel.Recurrent(Minimal(), *sizes, **options),
}
layers = pytest.mark.parametrize("name", LAYERS)
NATIVE = [name for name in LAYERS if name != "own"]


def build(name, **options):
    torch.manual_seed(0)
    return LAYERS[name](I, H, dtype=torch.float64, **options)


def draw(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


X, OTHER = draw(T, B, I), draw(T, B, I, seed=2)
LENGTHS, OTHER_LENGTHS = torch.tensor([4, 2]), torch.tensor([1, 3])


class WithLengths(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, lengths):
        return self.layer(x, lengths=lengths)


def frozen(layer):
    return layer.requires_grad_(False)


# ---- torch.jit.trace ----


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("mode", ["no_grad", "frozen", "gradients"])
@layers
def test_jit_trace(name, mode, tmp_path):
    layer = build(name)
    if mode == "frozen":
        frozen(layer)
    with torch.set_grad_enabled(mode != "no_grad"):
        traced = torch.jit.trace(layer, (X,))  # checks itself on X
        for x in (X, OTHER):
            assert_close(traced(x), layer(x))
        torch.jit.save(traced, tmp_path / "layer.pt")
        for program in (torch.jit.load(tmp_path / "layer.pt"), torch.jit.freeze(traced.eval())):
            assert_close(program(OTHER), layer(OTHER))
    if mode == "gradients":
        expected = torch.autograd.grad(layer(OTHER)[0].square().sum(), list(layer.parameters()))
        assert_close(torch.autograd.grad(traced(OTHER)[0].square().sum(), list(layer.parameters())), expected)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("example", [LENGTHS, torch.full((B,), T)], ids=["ragged", "whole"])
@layers
def test_jit_trace_with_lengths(name, example):
    """The lengths of the example are not part of the program, not even if nothing was padded."""
    module = WithLengths(build(name))
    with torch.no_grad():
        traced = torch.jit.trace(module, (X, example))
        assert_close(traced(OTHER, OTHER_LENGTHS), module(OTHER, OTHER_LENGTHS))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_jit_trace_in_training_draws_masks_when_it_runs():
    theirs = torch.jit.trace(nn.LSTM(I, H, 2, dropout=0.5, dtype=torch.float64), (X,), check_trace=False)
    for options in ({"dropout": 0.5}, {"zoneout": 0.5}, {"dropout": 0.5, "variational": True}):
        traced = torch.jit.trace(build("lstm", num_layers=2, **options), (X,), check_trace=False)
        for program in (theirs, traced):
            assert not torch.equal(program(X)[0], program(X)[0])


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_jit_trace_of_a_step():
    layer, x = build("gru"), draw(B, I)
    with torch.no_grad():
        traced = torch.jit.trace_module(layer, {"step": (x, draw(1, B, H, seed=3))})
        assert_close(traced.step(OTHER[0], draw(1, B, H)), layer.step(OTHER[0], draw(1, B, H)))


# ---- make_fx, fake tensors, torch.export ----


@pytest.mark.parametrize("tracing", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("mode", ["no_grad", "frozen", "gradients"])
@layers
def test_make_fx(name, mode, tracing):
    layer = build(name)
    if mode == "frozen":
        frozen(layer)
    weights = dict(layer.named_parameters())

    def call(weights, x, lengths):
        return functional_call(layer, weights, (x,)), functional_call(layer, weights, (x,), {"lengths": lengths})

    with torch.set_grad_enabled(mode != "no_grad"):
        program = make_fx(call, tracing_mode=tracing)(weights, X, LENGTHS)
        assert_close(program(weights, OTHER, OTHER_LENGTHS), call(weights, OTHER, OTHER_LENGTHS))
    called = {str(node.target) for node in program.graph.nodes}
    assert ("carousel.layer.default" in called) == (name != "own"), "kernels are one operator of the program"


@pytest.mark.parametrize("name", NATIVE)
def test_make_fx_with_symbolic_sizes(name):
    layer = build(name, bidirectional=True, num_layers=2)
    weights = dict(layer.named_parameters())
    program = make_fx(lambda w, x: functional_call(layer, w, (x,)), tracing_mode="symbolic")(weights, X)
    for shape in ((T + 3, B + 1, I), (2, 7, I)):
        assert_close(program(weights, draw(*shape)), layer(draw(*shape)))


def test_make_fx_before_dispatch():
    layer = build("lstm")
    program = make_fx(lambda x: layer(x), pre_dispatch=True)(X)
    assert_close(program(OTHER), layer(OTHER))


@pytest.mark.parametrize("tracing", ["real", "symbolic"])
@layers
def test_make_fx_of_gradients(name, tracing):
    layer = build(name)
    weights = {key: p.detach().requires_grad_() for key, p in layer.named_parameters()}

    def gradients(weights, x, lengths):
        output, _ = functional_call(layer, weights, (x,), {"lengths": lengths})
        return torch.autograd.grad(output.square().sum(), [x, *weights.values()])

    given = [x.clone().requires_grad_() for x in (X, OTHER)]
    program = make_fx(gradients, tracing_mode=tracing)(weights, given[0], LENGTHS)
    assert_close(program(weights, given[1], OTHER_LENGTHS), gradients(weights, given[1], OTHER_LENGTHS))


@layers
def test_fake_tensors(name):
    with FakeTensorMode() as mode:
        layer = LAYERS[name](I, H, bidirectional=True)  # drawn as fake float32 tensors
        for lengths in (None, torch.tensor([4, 2])):
            output, _ = layer(torch.randn(T, B, I, requires_grad=True), lengths=lengths)
            assert output.shape == (T, B, 2 * H)
            output.sum().backward()
            assert all(p.grad is not None and p.grad.shape == p.shape for p in layer.parameters())
        with torch.no_grad():
            assert layer(torch.randn(T, I))[0].shape == (T, 2 * H)
            assert LAYERS[name](I, H).step(torch.randn(B, I))[0].shape == (B, H)
    assert layer(mode.from_tensor(X.float()))[0].shape == (T, B, 2 * H)  # fake ones outlive their mode


@pytest.mark.parametrize("strict", [False, True])
@layers
def test_export(name, strict):
    module = WithLengths(build(name))
    batch, steps = torch.export.Dim("batch", min=2, max=64), torch.export.Dim("steps", min=2, max=64)
    time = {} if name == "own" else {0: steps}  # the loop of a cell's own equations has as many steps as the example
    shapes = {"x": {1: batch} | time, "lengths": {0: batch}}
    program = torch.export.export(module, (X, LENGTHS), dynamic_shapes=shapes, strict=strict).module()
    x, lengths = draw(T if name == "own" else T + 3, 3, I), torch.tensor([1, 4, 0])
    assert_close(program(x, lengths), module(x, lengths))


# ---- tensor subclasses ----


@pytest.mark.parametrize("gradients", [False, True])
@layers
def test_a_wrapper_as_input(name, gradients):
    layer = build(name)
    for options in ({}, {"lengths": LENGTHS}):
        with torch.set_grad_enabled(gradients):
            output, _ = layer(TwoTensor(X, OTHER), **options)
            assert_close((output.a, output.b), (layer(X, **options)[0], layer(OTHER, **options)[0]))
    if gradients:
        output.sum().backward()
        assert all(p.grad is not None for p in layer.parameters())
    else:
        with torch.no_grad():
            assert_close(layer.step(TwoTensor(X[0], OTHER[0]))[0].b, layer.step(OTHER[0])[0])


@layers
def test_a_wrapper_as_weight(name):
    plain, layer = build(name), build(name)
    doubled = copy.deepcopy(plain)
    with torch.no_grad():
        doubled.weight_ih_l0 *= 2
    layer.weight_ih_l0 = nn.Parameter(TwoTensor(plain.weight_ih_l0.detach(), doubled.weight_ih_l0.detach()))
    output, _ = layer(X)
    assert_close((output.a, output.b), (plain(X)[0], doubled(X)[0]))
    output.square().sum().backward()
    doubled(X)[0].square().sum().backward()
    assert_close(layer.weight_ih_l0.grad.b, doubled.weight_ih_l0.grad)
    with torch.no_grad():
        assert_close(layer(X)[0].b, doubled(X)[0])
        assert_close(layer.step(X[0])[0].b, doubled.step(X[0])[0])


class Named(Tensor):
    """A subclass as users write them, which counts what it sees."""

    seen = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen += 1
        return super().__torch_function__(func, types, args, kwargs or {})


@layers
def test_a_users_subclass(name):
    layer = build(name)
    for options in ({}, {"lengths": LENGTHS}):
        output, _ = layer(X.as_subclass(Named), **options)
        assert type(output) is Named and Named.seen
        assert_close(output.as_subclass(Tensor), layer(X, **options)[0])
    output.sum().backward()
    assert all(p.grad is not None for p in layer.parameters())
    with torch.no_grad():
        assert_close(layer.step(X[0].as_subclass(Named))[0].as_subclass(Tensor), layer.step(X[0])[0])


@pytest.fixture
def mesh(tmp_path):
    distributed = pytest.importorskip("torch.distributed")
    if not distributed.is_available():
        pytest.skip("torch was built without torch.distributed")
    from torch.distributed.tensor import init_device_mesh

    store = distributed.FileStore(str(tmp_path / "store"), 1)
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    distributed.destroy_process_group()


def test_distributed_tensors(mesh):
    from torch.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor

    for name in LAYERS:
        layer = build(name)
        expected = layer(X)[0]
        distribute_module(layer, mesh)
        x = distribute_tensor(X, mesh, [Shard(1)])
        output, _ = layer(x)
        assert_close(output.full_tensor(), expected)
        output.sum().backward()
        assert all(p.grad is not None for p in layer.parameters())
        with torch.no_grad():
            assert_close(layer.step(distribute_tensor(X[0], mesh, [Shard(0)]))[0].full_tensor(), expected[0])
        with pytest.raises(RuntimeError, match=r"got mixed torch\.Tensor and DTensor"):
            layer(X)
        with pytest.raises(TypeError, match="lengths must be a plain tensor or a list, got DTensor"):
            layer(x, lengths=distribute_tensor(LENGTHS, mesh, [Replicate()]))


# ---- modes ----


class Recording(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


@layers
def test_a_dispatch_mode_sees_operators(name):
    layer = build(name)
    for options in ({}, {"lengths": LENGTHS}):
        with Recording() as mode:
            output, _ = layer(X, **options)
            output.square().sum().backward()
        found = [p.grad for p in layer.parameters()]
        layer.zero_grad()
        expected, _ = layer(X, **options)
        with Recording() as later:  # the mode comes in after the forward call
            expected.square().sum().backward()
        assert_close(output, expected)
        assert_close(found, [p.grad for p in layer.parameters()])
        layer.zero_grad()
        if name == "own":
            assert "aten.tanh.default" in mode.seen
        else:
            assert {"carousel.layer.default", "carousel.layer_backward.default"} <= set(mode.seen)
            assert "carousel.layer_backward.default" in later.seen
    with torch.no_grad(), Recording() as mode:
        stepped, _ = layer.step(X[0])
    assert mode.seen
    assert_close(stepped, layer.step(X[0])[0])


@layers
def test_a_function_mode_sees_functions(name):
    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    layer = build(name)
    with Mode():
        output, _ = layer(X)
    assert_close(output, layer(X)[0])
    assert any("carousel.layer" in f for f in seen) or name == "own"


def test_flops_are_counted():
    """Per step and sequence two for every weight, as for a linear layer; twice that backwards."""
    for name, gates in (("lstm", 4), ("gru", 3), ("rnn", 1)):
        layer = build(name, num_layers=2, bidirectional=True)
        weights = 2 * gates * H * ((I + H) + (2 * H + H))
        with FlopCounterMode(display=False) as counter:
            output, _ = layer(X.clone().requires_grad_())
        assert counter.get_total_flops() == 2 * T * B * weights
        with FlopCounterMode(display=False) as counter:
            output.sum().backward()
        assert counter.get_total_flops() == 4 * T * B * weights


# ---- transforms, precision, harmless modes ----


@layers
def test_transforms(name):
    layer, many = build(name), draw(3, T, B, I)
    assert_close(vmap(lambda x: layer(x)[0])(many), torch.stack([layer(x)[0] for x in many]))
    x = X.clone().requires_grad_()
    expected = torch.autograd.grad(layer(x)[0].square().sum(), x)[0]
    assert_close(grad(lambda x: layer(x)[0].square().sum())(X), expected)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(layer(forward_ad.make_dual(X, OTHER))[0].square().sum()).tangent
    assert_close(tangent, (expected * OTHER).sum())


@layers
def test_batched_gradients(name):
    """`is_grads_batched`, and so `jacobian(vectorize=True)`, of a graph that was made plainly."""
    layer, x = build(name), X.clone().requires_grad_()
    output, inputs = layer(x)[0], [x, *layer.parameters()]
    seeds = draw(3, *output.shape)
    found = torch.autograd.grad(output, inputs, seeds, is_grads_batched=True, retain_graph=True)
    expected = [torch.autograd.grad(output, inputs, seed, retain_graph=True) for seed in seeds]
    for k, together in enumerate(found):
        assert_close(together, torch.stack([each[k] for each in expected]))


@pytest.mark.parametrize("name", NATIVE)
def test_compile_keeps_the_kernels(name):
    layer, graphs = build(name), []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    torch.compile(layer, backend=backend, fullgraph=True)(X)
    [graph] = graphs
    assert "carousel.layer" in {str(node.target) for node in graph.graph.nodes}


def test_vmap_inside_compile():
    layer, many = build("lstm"), draw(3, T, B, I)
    compiled = torch.compile(vmap(lambda x: layer(x)[0]), backend="aot_eager")
    assert_close(compiled(many), torch.stack([layer(x)[0] for x in many]))
    torch.compiler.reset()


@pytest.mark.parametrize("name", NATIVE)
def test_harmless_modes_keep_the_kernels(name):
    layer = build(name).eval()
    expected = layer(X)[0].detach()
    torch.set_default_device("cpu")
    try:
        assert layer.path(X) == "fused"
        assert_close(layer(X, lengths=LENGTHS)[0][:, 0], expected[:, 0])
    finally:
        torch.set_default_device(None)
    with torch.inference_mode():
        assert layer.path(X) == "fused"
        assert torch.equal(layer(X)[0], expected)
        assert_close(layer.step(X[0])[0], expected[0])


@layers
def test_autocast(name):
    layer, x = build(name).float(), X.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer.path(x) == "reference"
        output, _ = layer(x)
    assert_close(output.float(), layer(x)[0], rtol=0.05, atol=0.05)


@layers
def test_without_storage_or_with_another_meaning(name):
    """Meta tensors give shapes; a lazily negated view is negated."""
    layer = build(name)
    assert copy.deepcopy(layer).to("meta")(X.to("meta"))[0].shape == (T, B, H)
    assert_close(layer(torch._neg_view(X))[0], layer(-X)[0])
    with torch.no_grad():
        assert_close(layer.step(torch.complex(X, X).conj().imag[0])[0], layer.step(-X[0])[0])
