"""Forward against ONNX's recurrent operators: ONNX Runtime's kernels, and the operator test cases ONNX ships.

In float32: ONNX Runtime has no float64 kernel for these operators.
"""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx.backend.test.case.node import _NodeTestCases, gru, lstm, rnn  # noqa: F401 (importing them makes the cases)
from onnx.helper import get_attribute_value, make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

import carousel

SIZE = {"RNN": 1, "GRU": 3, "LSTM": 4}  # gates
DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}


# ---- any ONNX recurrent node, run by the carousel layer that is the same network ----


def reorder(rows, onnx_order, ours, negate=""):
    """Rows of an ONNX tensor, gate by gate in `onnx_order`, as ours are ordered; 1 − σ(a) = σ(−a) where negated."""
    blocks = dict(zip(onnx_order, torch.as_tensor(rows).chunk(len(onnx_order)), strict=True))
    return torch.cat([-blocks[gate] if gate in negate else blocks[gate] for gate in ours])


def layer_for(op, attributes, inputs):
    """The carousel class, its options, and how its gates are called and ordered in ONNX."""
    activations = tuple(attributes.get("activations", DEFAULTS[op]))
    kind = activations[: len(DEFAULTS[op])]
    assert activations in (kind, kind + kind), "carousel's directions share one nonlinearity"
    if op == "RNN":
        return carousel.RNN, {"nonlinearity": kind[0].lower()}, ("h", "h", "")
    assert kind == DEFAULTS[op]
    if op == "GRU":
        after = attributes.get("linear_before_reset", 0)
        return carousel.GRU if after else carousel.ResetBeforeGRU, {}, ("zrh", "rzh", "")
    if attributes.get("input_forget", 0):  # f = 1 − i: our forget gate is their input gate, negated
        return carousel.CoupledLSTM, {"peephole": "P" in inputs}, ("iofc", "ico", "i")
    return carousel.PeepholeLSTM if "P" in inputs else carousel.LSTM, {}, ("iofc", "ifco", "")


def run_layer(op, attributes, inputs):
    """ONNX's outputs Y, Y_h (and Y_c) for a node, from a carousel layer."""
    known = {"hidden_size", "direction", "activations", "layout", "linear_before_reset", "input_forget"}
    assert attributes.keys() <= known, f"no counterpart for {attributes.keys() - known}"
    make, options, (order, ours, negate) = layer_for(op, attributes, inputs)
    direction, batch_first = attributes.get("direction", "forward"), bool(attributes.get("layout", 0))
    sides = {"forward": [0], "reverse": [1], "bidirectional": [0, 1]}[direction]
    x = torch.as_tensor(inputs["X"])
    layer = make(
        *(x.shape[-1], inputs["R"].shape[-1]),
        bias="B" in inputs,
        bidirectional=direction != "forward",
        batch_first=batch_first,
        dtype=x.dtype,
        **options,
    )
    own = layer.state_dict()
    for given, side in enumerate(sides):
        suffix = "_l0_reverse" if side else "_l0"
        own["weight_ih" + suffix] = reorder(inputs["W"][given], order, ours, negate)
        own["weight_hh" + suffix] = reorder(inputs["R"][given], order, ours, negate)
        if "B" in inputs:
            for name, bias in zip(("bias_ih", "bias_hh"), np.split(inputs["B"][given], 2), strict=True):
                own[name + suffix] = reorder(bias, order, ours, negate)
        if "P" in inputs:
            own["weight_ch" + suffix] = reorder(inputs["P"][given], "iof", ours.replace("c", ""), negate)
    layer.load_state_dict(own)

    def time_major(s):
        return torch.as_tensor(s).transpose(0, 1) if batch_first else torch.as_tensor(s)

    names = ["initial_h", "initial_c"] if op == "LSTM" else ["initial_h"]
    hx = None
    if any(name in inputs for name in names):  # ONNX may give one and not the other
        shape = (layer.num_directions, time_major(x).shape[1], layer.hidden_size)
        hx = [torch.zeros(shape, dtype=x.dtype) for _ in names]
        for state, name in zip(hx, names, strict=True):
            if name in inputs:
                state[sides] = time_major(inputs[name])
        hx = tuple(hx) if op == "LSTM" else hx[0]
    with torch.no_grad():
        y, state = layer(x, hx, lengths=inputs.get("sequence_lens"))
    y = y.unflatten(-1, (layer.num_directions, -1))[..., sides, :]  # (T, B, D, H)
    states = [s[sides] for s in (state if op == "LSTM" else (state,))]
    if batch_first:
        return [y, *(s.transpose(0, 1) for s in states)]
    return [y.transpose(1, 2), *states]


# ---- ONNX Runtime ----


def run_onnxruntime(op, attributes, inputs):
    kinds = {"float32": onnx.TensorProto.FLOAT, "int32": onnx.TensorProto.INT32}
    names = ["X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"][: 8 if op == "LSTM" else 6]
    outputs = ["Y", "Y_h", "Y_c"][: 3 if op == "LSTM" else 2]
    node = make_node(op, [name if name in inputs else "" for name in names], outputs, **attributes)
    graph = make_graph(
        [node],
        op,
        [make_tensor_value_info(name, kinds[str(v.dtype)], v.shape) for name, v in inputs.items()],
        [make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs],
    )
    model = make_model(graph, opset_imports=[make_opsetid("", 14)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def node_inputs(op, direction, *, bias=True, lengths=None, initial=False, peepholes=False):
    rng, T, B, I, H = np.random.default_rng(0), 6, 4, 3, 5
    D, G = 2 if direction == "bidirectional" else 1, SIZE[op]
    shapes = {"X": (T, B, I), "W": (D, G * H, I), "R": (D, G * H, H)}
    if bias:
        shapes["B"] = (D, 2 * G * H)
    if initial:
        shapes |= {name: (D, B, H) for name in ["initial_h", "initial_c"][: 2 if op == "LSTM" else 1]}
    if peepholes:
        shapes["P"] = (D, 3 * H)
    inputs = {name: rng.normal(0, 0.7, shape).astype(np.float32) for name, shape in shapes.items()}
    if lengths is not None:
        inputs["sequence_lens"] = np.array(lengths, np.int32)
    return inputs


OPERATORS = {
    "rnn-tanh": ("RNN", {}),
    "rnn-relu": ("RNN", {"activations": ["Relu"]}),
    "rnn-sigmoid": ("RNN", {"activations": ["Sigmoid"]}),
    "gru-reset-before": ("GRU", {"linear_before_reset": 0}),
    "gru-reset-after": ("GRU", {"linear_before_reset": 1}),
    "lstm": ("LSTM", {}),
    "lstm-peepholes": ("LSTM", {"peepholes": True}),
    "lstm-input-forget": ("LSTM", {"input_forget": 1}),
    "lstm-input-forget-peepholes": ("LSTM", {"input_forget": 1, "peepholes": True}),
}
CALLS = {
    "plain": {},
    "no-bias": {"bias": False},
    "lengths": {"lengths": [3, 6, 1, 4]},
    "zero-length": {"lengths": [3, 0, 6, 1]},
    "initial": {"initial": True},
    "lengths-initial": {"lengths": [2, 5, 6, 1], "initial": True},
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_onnxruntime(operator, direction, call):
    op, attributes = OPERATORS[operator]
    attributes = {"hidden_size": 5, "direction": direction} | attributes
    inputs = node_inputs(op, direction, peepholes=attributes.pop("peepholes", False), **CALLS[call])
    if direction == "bidirectional" and "activations" in attributes:
        attributes["activations"] = attributes["activations"] * 2
    for ours, theirs in zip(run_layer(op, attributes, inputs), run_onnxruntime(op, attributes, inputs), strict=True):
        torch.testing.assert_close(ours, torch.from_numpy(theirs), rtol=1e-5, atol=2e-6)


# ---- ONNX's own cases ----

SHIPPED = {case.name: case for case in _NodeTestCases if case.model.graph.node[0].op_type in SIZE}


@pytest.mark.parametrize("name", SHIPPED)
def test_onnx_operator_case(name):
    case = SHIPPED[name]
    (node,) = case.model.graph.node
    attributes = {a.name: decode(get_attribute_value(a)) for a in node.attribute}
    for given, expected in case.data_sets:
        # a case names its inputs as it likes; what they are is their position in the operator's schema
        schema = [p.name for p in onnx.defs.get_schema(node.op_type).inputs]
        values = dict(zip((i.name for i in case.model.graph.input), given, strict=True))
        inputs = {role: values[i] for role, i in zip(schema, node.input, strict=False) if i}
        found = [v for v, name in zip(run_layer(node.op_type, attributes, inputs), node.output, strict=False) if name]
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, torch.from_numpy(theirs), rtol=case.rtol, atol=case.atol)


def decode(value):
    if isinstance(value, bytes):
        return value.decode()
    return [decode(v) for v in value] if isinstance(value, list) else value


def test_onnx_ships_cases_of_every_operator():
    assert {case.model.graph.node[0].op_type for case in SHIPPED.values()} == set(SIZE)
