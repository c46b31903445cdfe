"""What programs do to a model besides calling it: `torch.fx`, `torch.jit.script`, ONNX, batches of nothing."""

import contextlib
import io

import onnxruntime
import pytest
import torch
from helpers.references import KINDS, states_of
from torch import nn

import carousel

T, B, I, H = 5, 3, 4, 6
PAIRS = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN, "LSTMCell": nn.LSTMCell, "GRUCell": nn.GRUCell}
kinds = pytest.mark.parametrize("kind", KINDS)


def build(kind, **options):
    return KINDS[kind].layer(I, H, **KINDS[kind].options, **options).eval()


# ---- results changed in place ----


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("change", [lambda y: y.mul_(2), lambda y: y[1:].zero_(), lambda y: y.relu_()])
def test_the_output_may_be_changed_before_backward(name, change):
    ours = getattr(carousel, name)(I, H, 2, bidirectional=True, dtype=torch.float64)
    theirs, x = ours.to_torch(), torch.randn(T, B, I, dtype=torch.float64)
    gradients = []
    for module in (ours, theirs):
        given = x.clone().requires_grad_()
        y, _ = module(given)
        change(y)
        gradients.append(torch.autograd.grad(y.square().sum(), [given, *module.parameters()]))
    torch.testing.assert_close(*gradients)


# ---- torch.fx ----


class Model(nn.Module):
    def __init__(self, layer, cell):
        super().__init__()
        self.layer, self.cell, self.head = layer, cell, nn.Linear(H, 2)

    def forward(self, x):
        y, _ = self.layer(x)
        return self.head(states_of(self.cell(y[-1]))[0])


@kinds
def test_symbolic_trace_keeps_layers_whole(kind):
    """With the tracer as it comes, as for torch's layers; the traced model runs, trains and can be saved."""
    cell = getattr(carousel, f"{KINDS[kind].layer.__name__}Cell")(H, H, **KINDS[kind].options)
    model = Model(build(kind), carousel.accelerate(nn.GRUCell(H, H)))
    traced = torch.fx.symbolic_trace(model)
    assert [str(node.target) for node in traced.graph.nodes if node.op == "call_module"] == ["layer", "cell", "head"]
    x = torch.randn(T, B, I)
    torch.testing.assert_close(traced(x), model(x))
    traced(x).sum().backward()
    assert all(p.grad is not None for p in traced.parameters())
    assert torch.fx.Tracer().is_leaf_module(cell, "cell")
    assert type(cell).__module__ == "carousel.layers.cell", "the class itself stays where it is"


# ---- torch.jit.script ----


class Around(nn.Module):
    """torch.jit calls a layer only from inside another module: its forward is overloaded."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", PAIRS)
def test_script_compiles_torchs_layer(name, tmp_path):
    model = Around(getattr(carousel, name)(I, H))
    x = torch.randn(B, I) if "Cell" in name else torch.randn(T, B, I)
    expected, places = model(x), [p.data_ptr() for p in model.parameters()]
    scripted = torch.jit.script(model)
    torch.jit.save(scripted, tmp_path / "model.pt")
    for program in (scripted, torch.jit.load(tmp_path / "model.pt")):
        torch.testing.assert_close(program(x), expected)
    assert [p.data_ptr() for p in scripted.parameters()] == places, "the parameters are shared"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_script_says_what_to_do_otherwise():
    with pytest.raises(
        RuntimeError, match=r"cannot compile PeepholeLSTM, which torch does not have; use torch\.jit\.trace"
    ):
        torch.jit.script(carousel.PeepholeLSTM(I, H))
    with pytest.raises(ValueError, match=r"torch\.nn has nothing like zoneout"):
        torch.jit.script(carousel.LSTM(I, H, zoneout=0.1))


# ---- a batch of nothing ----


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("name", PAIRS)
def test_an_empty_batch_is_torchs(name, gradients):
    theirs, ours = PAIRS[name](I, H), getattr(carousel, name)(I, H)
    shape = (0, I) if "Cell" in name else (T, 0, I)
    results = []
    for module in (theirs, ours):
        x = torch.zeros(shape, requires_grad=True)
        with torch.set_grad_enabled(gradients):
            output = module(x)
        flat = torch.utils._pytree.tree_leaves(output)
        if gradients:
            sum(t.sum() for t in flat).backward()
            flat += [x.grad, *(p.grad for p in module.parameters())]
        results.append(flat)
    torch.testing.assert_close(results[1], results[0])


@kinds
def test_an_empty_batch_of_every_kind(kind):
    layer = build(kind, bidirectional=True)
    y, state = layer(torch.zeros(T, 0, I), lengths=torch.zeros(0, dtype=torch.int64))
    assert y.shape == (T, 0, 2 * H) and all(s.shape == (2, 0, H) for s in states_of(state))
    with torch.no_grad():
        assert build(kind).step(torch.zeros(0, I))[0].shape == (0, H)


# ---- ONNX ----


def run_onnx(model, args, inputs, dynamo, **options):
    """What ONNX Runtime computes from the exported model, and the operators in it."""
    file = io.BytesIO()
    with contextlib.redirect_stdout(io.StringIO()):
        program = torch.onnx.export(model, args, None if dynamo else file, dynamo=dynamo, verbose=False, **options)
    content = program.model_proto.SerializeToString() if dynamo else file.getvalue()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    given = {node.name: value.numpy() for node, value in zip(session.get_inputs(), inputs, strict=True)}
    import onnx

    return session.run(None, given), {node.op_type for node in onnx.load_from_string(content).graph.node}


def same(found, expected):
    for a, b in zip(found, torch.utils._pytree.tree_leaves(expected), strict=True):
        torch.testing.assert_close(torch.from_numpy(a), b.detach(), rtol=1e-5, atol=1e-6)


OPERATORS = {
    "RNN": "RNN",
    "LSTM": "LSTM",
    "PeepholeLSTM": "LSTM",
    "CoupledLSTM": "LSTM",
    "GRU": "GRU",
    "ResetBeforeGRU": "GRU",
}
STACKS = [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "batch_first": True}]
exporters = pytest.mark.parametrize(
    "dynamo", [pytest.param(True, id="dynamo", marks=pytest.mark.slow), pytest.param(False, id="torchscript")]
)
quiet = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def needs_onnxscript(request):
    if request.node.name.endswith("]") and "dynamo" in request.node.name:
        pytest.importorskip("onnxscript", reason="the dynamo exporter needs it: pip install onnxscript")


@pytest.mark.slow
@quiet
@exporters
@pytest.mark.parametrize("options", [{"num_layers": 2, "bidirectional": True}, {"bias": False, "batch_first": True}])
@kinds
def test_onnx_export(kind, options, dynamo):
    layer, x, other = build(kind, **options), torch.randn(T, B, I), torch.randn(T, B, I)
    with torch.no_grad():
        for p in layer.parameters():
            p.add_(0.3 * torch.randn_like(p))  # peepholes and norms start at special values
    found, operators = run_onnx(layer, (x,), (other,), dynamo)
    same(found, layer(other))
    own = OPERATORS.get(type(layer).__name__)
    if dynamo and own and kind != "peephole-full":
        assert own in operators and "MatMul" not in operators and "Gemm" not in operators
    if not dynamo and kind in ("lstm", "gru", "rnn-tanh", "rnn-relu"):
        assert own in operators


@quiet
@exporters
def test_onnx_export_with_a_state(dynamo):
    layer, x, hx = build("lstm", num_layers=2), torch.randn(T, B, I), (torch.randn(2, B, H), torch.randn(2, B, H))
    found, _ = run_onnx(layer, (x, hx), (x, *hx), dynamo)
    same(found, layer(x, hx))


class WithLengths(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, lengths):
        return self.layer(x, lengths=lengths)


@quiet
@pytest.mark.parametrize("kind", ["lstm", "gru", "coupled-peephole"])
@exporters
def test_onnx_export_with_lengths(kind, dynamo):
    """The lengths are an input of the exported model."""
    model, x = WithLengths(build(kind, bidirectional=True)), torch.randn(T, B, I)
    given, other = torch.tensor([5, 2, 3]), torch.tensor([1, 5, 4])
    found, _ = run_onnx(model, (x, given), (x, other), dynamo)
    same(found, model(x, other))


@quiet
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lstm", "gru-reset-before"])
def test_onnx_export_with_dynamic_sizes_dynamo(kind):
    pytest.importorskip("onnxscript")
    layer, other = build(kind, bidirectional=True), torch.randn(T + 3, B + 1, I)
    steps, size = torch.export.Dim("steps", min=2, max=99), torch.export.Dim("size", min=2, max=99)
    shapes = {"input": {0: steps, 1: size}}
    found, _ = run_onnx(layer, (torch.randn(T, B, I),), (other,), True, dynamic_shapes=shapes)
    same(found, layer(other))


@quiet
@exporters
def test_onnx_export_with_projection(dynamo):
    layer, x = build("lstm", proj_size=3), torch.randn(T, B, I)
    same(run_onnx(layer, (x,), (x,), dynamo)[0], layer(x))


@quiet
@exporters
def test_onnx_export_of_an_accelerated_model(dynamo):
    model, x = Model(nn.LSTM(I, H), nn.GRUCell(H, H)).eval(), torch.randn(T, B, I)
    expected = model(x)
    same(run_onnx(carousel.accelerate(model), (x,), (x,), dynamo)[0], expected)
