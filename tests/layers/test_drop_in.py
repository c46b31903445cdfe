"""What programs do with torch.nn's recurrent layers, they can do with ours: as torch's own tests expect of a module."""

import copy
import io
import re
import sys
import types
import unittest

import hypothesis
import pytest
import torch
from helpers.references import KINDS as EVERY_KIND
from helpers.references import build, states_of
from helpers.twins import KINDS, twins
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune
from torch.nn.utils.rnn import pack_padded_sequence

import carousel

I, H, T, B = 3, 4, 5, 2
NAMES = ["RNN", "LSTM", "GRU"]

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
kinds = pytest.mark.parametrize("kind", KINDS)
names = pytest.mark.parametrize("name", NAMES)
every_kind = pytest.mark.parametrize("kind", EVERY_KIND)


def flat(result):
    """Output and states of a call, as a list."""
    output, state = result
    return [output, *states_of(state)]


def same(a, b, **tolerance):
    torch.testing.assert_close(a, b, **({"rtol": 0, "atol": 0} | tolerance))


# ---- torch's own table of modules ----


@pytest.fixture(scope="module")
def torch_table():
    """torch's record of its recurrent modules, by name: the inputs and errors its own tests run through."""
    sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))  # wanted, but not needed
    profile = hypothesis.settings.get_current_profile_name()
    from torch.testing._internal import common_modules

    hypothesis.settings.load_profile(profile)  # the import loads another, and freezes torch's flags
    torch.backends.__allow_nonbracketed_mutation_flag = True
    return {info.module_cls.__name__: info for info in common_modules.module_db if info.name[3:] in NAMES}


def table_inputs(info, dtype, training=True):
    """(constructor arguments, call arguments) of every input in torch's table."""
    for entry in info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training):
        yield entry.constructor_input.kwargs | {"dtype": dtype}, entry.forward_input.args


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@names
def test_torchs_inputs_give_torchs_outputs(torch_table, name, dtype, training):
    for options, args in table_inputs(torch_table[name], dtype, training):
        theirs = getattr(nn, name)(**options).train(training)
        ours = getattr(carousel, name).from_torch(theirs)
        same(flat(ours(*args)), flat(theirs(*args)), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@names
def test_torchs_inputs_pass_gradcheck_twice(torch_table, name):
    for options, (x, *hx) in table_inputs(torch_table[name], torch.float64):
        if options["batch_first"]:
            continue  # nothing else: the table's inputs have no batch
        layer = getattr(carousel, name)(**options)
        given = [s for h in hx for s in states_of(h)]

        def call(x, *rest, layer=layer, stateless=not given):
            hx = rest[:2] if isinstance(layer, carousel.LSTM) else rest[0]
            return tuple(flat(layer(x, None if stateless else hx)))

        inputs = (x, *given, *layer.parameters())
        assert torch.autograd.gradcheck(call, inputs, fast_mode=True)
        assert torch.autograd.gradgradcheck(call, inputs, fast_mode=True)


@names
def test_torchs_error_inputs_give_torchs_errors(torch_table, name):
    info = torch_table[name]
    for entry in info.module_error_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=False, training=True
    ):
        given = entry.module_error_input
        with pytest.raises(entry.error_type, match=entry.error_regex):
            layer = getattr(carousel, name)(*given.constructor_input.args, **given.constructor_input.kwargs)
            layer(*given.forward_input.args)


# ---- arguments ----


@pytest.mark.parametrize(
    ("x", "h", "c"),
    [
        ((T, B + 1, I), (2, B, H), (2, B, H)),
        ((T, B, I + 1), (2, B, H), (2, B, H)),
        ((T, B, I), (2, B + 1, H), (2, B, H)),
        ((T, B, I), (2, B, H + 1), (2, B, H)),
        ((T, B, I), (1, B, H), (2, B, H)),
        ((T, B, I), (2, H), (2, H)),
        ((T, B, I), (1, 2, B, H), (1, 2, B, H)),
        ((T, I), (2, B, H), (2, B, H)),
    ],
)
@pytest.mark.parametrize("which", [0, 1])
@names
def test_wrong_sizes_raise_what_torch_raises(name, which, x, h, c):
    """The wrong state in either place; torch's words are in ours, for programs that look for them."""
    states = torch.randn(h), torch.randn(c)
    hx = (states if which == 0 else states[::-1]) if name == "LSTM" else states[0]
    errors = []
    for library in (nn, carousel):
        with pytest.raises(RuntimeError) as error:
            getattr(library, name)(I, H, 2)(torch.randn(x), hx)
        errors.append(str(error.value))
    assert errors[0] in errors[1]


@names
def test_a_packed_batch_checks_its_state_too(name):
    packed = pack_padded_sequence(torch.randn(T, B, I), [2, 5], enforce_sorted=False)
    wrong = torch.randn(1, B + 1, H)
    with pytest.raises(RuntimeError, match="Expected hidden"):
        getattr(carousel, name)(I, H)(packed, (wrong, wrong) if name == "LSTM" else wrong)


@pytest.mark.parametrize("name", ["RNN", "GRU"])
def test_only_lstms_project(name):
    with pytest.raises(ValueError, match="proj_size argument is only supported for LSTM, not RNN or GRU"):
        getattr(carousel, name)(I, H, proj_size=2)


def test_nonlinearity_is_fourth_or_by_name():
    assert carousel.RNN(I, H).nonlinearity == "tanh"
    assert carousel.RNN(I, H, 1, "relu").nonlinearity == carousel.RNN(I, H, nonlinearity="relu").nonlinearity == "relu"
    for wrong in ({"nonlinearity": "garbage"}, {"nonlinearity": "Tanh"}):
        with pytest.raises(ValueError, match="Unknown nonlinearity"):
            carousel.RNN(I, H, **wrong)
    with pytest.raises(TypeError, match="nonlinearity"):
        carousel.RNN(I, H, 1, "relu", nonlinearity="tanh")


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("RNN", (I, H, 2, "tanh", False, True, 0.5, True)),
        ("LSTM", (I, H, 2, False, True, 0.5, True, 2)),
        ("GRU", (I, H, 2, False, True, 0.5, True)),
    ],
)
def test_positional_arguments_and_repr(name, args):
    theirs, ours = (getattr(library, name)(*args) for library in (nn, carousel))
    assert repr(ours) == repr(theirs)
    assert [(n, p.shape) for n, p in ours.named_parameters()] == [(n, p.shape) for n, p in theirs.named_parameters()]


@kinds
def test_call_takes_torchs_argument_names(kind):
    theirs, ours = twins(kind, I, H)
    x = torch.randn(T, B, I)
    _, hx = theirs(x)
    same(flat(ours(input=x, hx=hx)), flat(theirs(input=x, hx=hx)), rtol=1e-5, atol=1e-6)
    same(flat(ours(x, None)), flat(ours(x)))


@names
def test_zero_state_is_the_default(name):
    layer = getattr(carousel, name)(I, H, 2)
    x, zero = torch.randn(T, B, I), torch.zeros(2, B, H)
    same(flat(layer(x, (zero, zero) if name == "LSTM" else zero)), flat(layer(x)))


@every_kind
def test_layout_in_memory_does_not_matter(kind):
    layer = build(kind, I, H, num_layers=2)
    dense = torch.randn(T, B, I, dtype=torch.float64)
    strided = torch.randn(I, B, T * 2, dtype=torch.float64).permute(2, 1, 0)[::2].copy_(dense)
    row = [torch.randn(2, 1, H, dtype=torch.float64) for _ in layer.cell.states]
    expanded = [s.expand(2, B, H) for s in row]
    assert not strided.is_contiguous() and expanded[0].stride(1) == 0
    found, expected = (
        flat(layer(x, tuple(hx) if len(hx) > 1 else hx[0]))
        for x, hx in ((strided, expanded), (dense, [s.contiguous() for s in expanded]))
    )
    same(found, expected, rtol=1e-12, atol=1e-12)


# ---- dropout between layers ----


def counting_network(p):
    """Two relu layers of weight 1, no bias: without dropout 10 ones give 10 in every unit below, 10·1000 above."""
    layer = carousel.RNN(10, 1000, 2, bias=False, dropout=p, nonlinearity="relu")
    for parameter in layer.parameters():
        nn.init.ones_(parameter)
    return layer


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("p", [0, 0.276, 0.731, 1])
def test_dropout_acts_between_layers_only(p, training):
    output, state = counting_network(p).train(training)(torch.ones(1, 1, 10))
    assert (state[0] == 10).all() and (state[1] == output[0]).all() and output.min() == output.max()
    value = output[0, 0, 0].item()
    if not training or p == 0:
        assert value == 10_000
    elif p == 1:
        assert value == 0
    else:  # k kept units, each 10/(1 − p)
        assert 8_000 < value < 12_000
        kept = value * (1 - p) / 10
        assert abs(kept - round(kept)) < 1e-2


def test_dropout_can_be_changed_later():
    layer, x = carousel.LSTM(I, H, 2), torch.randn(T, B, I)
    for p in (0.5, 0, 0.3, 1):
        layer.dropout = p
        changes = not torch.equal(layer(x)[0], layer(x)[0])
        assert changes == (p not in (0, 1))
    layer.eval().dropout = 0.5
    same(layer(x)[0], layer(x)[0])


def test_dropout_on_one_layer_warns_the_caller():
    with pytest.warns(UserWarning, match="num_layers greater than 1") as caught:
        carousel.LSTM(I, H, dropout=0.5)
    assert caught[0].filename == __file__


@names
def test_forward_asks_whether_it_is_training(torch_table, name):
    """torch's way to find out whether a module may behave differently in training: take the flag away."""
    assert torch_table[name].train_and_eval_differ
    layer = getattr(carousel, name)(I, H)
    del layer.training
    with pytest.raises(AttributeError, match="'training'"):
        layer(torch.randn(T, B, I))


# ---- gradients ----


@every_kind
def test_backward_twice_on_a_retained_graph(kind):
    layer = build(kind, I, H, num_layers=2)
    x = torch.randn(T, B, I, dtype=torch.float64, requires_grad=True)
    leaves, loss = [x, *layer.parameters()], layer(x)[0].sum()
    grads = [torch.autograd.grad(loss, leaves, retain_graph=True) for _ in range(3)]
    same(grads[1], grads[0])
    same(grads[2], grads[0])


@kinds
def test_frozen_parameters_get_no_gradient(kind):
    _, layer = twins(kind, I, H, 2)
    layer.weight_hh_l0.requires_grad_(False)
    layer(torch.randn(T, B, I))[0].sum().backward()
    assert [name for name, p in layer.named_parameters() if p.grad is None] == ["weight_hh_l0"]


# ---- the module's life ----


@every_kind
def test_copies_and_pickles(kind):
    layer = build(kind, I, H, num_layers=2, bidirectional=True, dropout=0.5, zoneout=0.1).eval()
    x = torch.randn(T, B, I, dtype=torch.float64)
    buffer = io.BytesIO()
    torch.save(layer, buffer)
    buffer.seek(0)
    for other in (copy.deepcopy(layer), torch.load(buffer, weights_only=False)):
        assert type(other) is type(layer) and repr(other) == repr(layer) and not other.training
        same(flat(other(x)), flat(layer(x)))
        nn.init.zeros_(other.weight_hh_l0)
        assert layer.weight_hh_l0.abs().sum() > 0


@every_kind
def test_state_dict_through_a_file(kind, tmp_path):
    layer, other = build(kind, I, H), build(kind, I, H, seed=1)
    torch.save(layer.state_dict(), tmp_path / "weights.pt")
    other.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True), strict=True)
    same(dict(other.state_dict()), dict(layer.state_dict()))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
@kinds
def test_moves_to_another_dtype(kind, dtype):
    theirs, ours = twins(kind, I, H, 2, bidirectional=True)
    x = torch.randn(T, B, I, dtype=dtype)
    precision = {torch.float64: 1e-10, torch.float16: 5e-3, torch.bfloat16: 4e-2}[dtype]
    same(flat(ours.to(dtype)(x)), flat(theirs.to(dtype)(x)), rtol=precision, atol=precision)


@every_kind
def test_factory_arguments(kind):
    make, options = EVERY_KIND[kind].layer, EVERY_KIND[kind].options
    for layer in (
        make(I, H, device="meta", dtype=torch.float64, learn_initial_state=True, **options),
        make(I, H, learn_initial_state=True, **options).to(device="meta", dtype=torch.float64),
    ):
        assert {(p.device.type, p.dtype) for p in layer.parameters()} == {("meta", torch.float64)}
    with torch.device("meta"):
        assert {p.device.type for p in make(I, H, **options).parameters()} == {"meta"}


@every_kind
def test_from_meta_to_memory(kind):
    """A layer made without memory, then given some: to_empty and a state dict, or the state dict itself."""
    expected, x = build(kind, I, H, num_layers=2), torch.randn(T, B, I, dtype=torch.float64)
    for fill in ("copy", "assign"):
        layer = EVERY_KIND[kind].layer(I, H, 2, device="meta", dtype=torch.float64, **EVERY_KIND[kind].options)
        assert flat(layer(x.to("meta")))[0].shape == (T, B, H)
        if fill == "copy":
            layer.to_empty(device="cpu")
        layer.load_state_dict(expected.state_dict(), assign=fill == "assign")
        same(flat(layer(x)), flat(expected(x)))


@kinds
def test_weights_as_torch_lists_them(kind):
    theirs, ours = twins(kind, I, H, 2, bidirectional=True)
    assert ours.flatten_parameters() is None
    assert ours.mode == theirs.mode
    same(ours.all_weights, theirs.all_weights)
    same(ours._flat_weights, theirs._flat_weights)
    same(nn.utils.parameters_to_vector(ours.parameters()), nn.utils.parameters_to_vector(theirs.parameters()))
    nn.utils.vector_to_parameters(torch.arange(float(sum(p.numel() for p in ours.parameters()))), ours.parameters())
    assert ours.weight_ih_l0[0, 0] == 0 and ours.weight_ih_l0[0, 1] == 1
    assert all(p.is_shared() for p in ours.share_memory().parameters())


# ---- weights that are not parameters ----


def test_a_weight_may_be_a_plain_tensor():
    theirs, ours = twins("lstm", I, H, dtype=torch.float64)
    x = torch.randn(T, B, I, dtype=torch.float64)
    theirs.weight_hh_l0 = nn.Parameter(source := torch.randn(4 * H, H, dtype=torch.float64))
    source = source.clone().requires_grad_()
    del ours.weight_hh_l0
    ours.weight_hh_l0 = source * 1
    for layer in (theirs, ours):
        layer(x)[0].sum().backward()
    same(ours(x)[0], theirs(x)[0], rtol=1e-10, atol=1e-10)
    same(source.grad, theirs.weight_hh_l0.grad, rtol=1e-10, atol=1e-10)


REPARAMETRISE = {
    "weight_norm": lambda m: parametrizations.weight_norm(m, "weight_hh_l0"),
    "orthogonal": lambda m: parametrizations.orthogonal(m, "weight_hh_l0"),
    "old weight_norm": lambda m: nn.utils.weight_norm(m, "weight_hh_l0"),
    "pruning": lambda m: prune.l1_unstructured(m, "weight_hh_l0", 0.5),
}
RESTORE = {
    "weight_norm": lambda m: parametrize.remove_parametrizations(m, "weight_hh_l0"),
    "orthogonal": lambda m: parametrize.remove_parametrizations(m, "weight_hh_l0"),
    "old weight_norm": lambda m: nn.utils.remove_weight_norm(m, "weight_hh_l0"),
    "pruning": lambda m: prune.remove(m, "weight_hh_l0"),
}


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize("how", REPARAMETRISE)
@names
def test_weights_can_be_reparametrised(name, how):
    """The same trick on torch's layer and ours: same outputs, same gradients, and the same names when undone."""
    kind = {"RNN": "tanh", "LSTM": "lstm", "GRU": "gru"}[name]
    theirs, ours = twins(kind, I, H, dtype=torch.float64)
    x = torch.randn(T, B, I, dtype=torch.float64)
    for layer in (theirs, ours):
        torch.manual_seed(0)
        REPARAMETRISE[how](layer)
    ours.load_state_dict(theirs.state_dict())
    tolerance = {"rtol": 1e-9, "atol": 1e-9}
    same(flat(ours(x)), flat(theirs(x)), **tolerance)
    assert [isinstance(w, nn.Parameter) for w in ours._flat_weights] == [True, False, True, True]
    for layer in (theirs, ours):
        layer(x)[0].sum().backward()
    same(*({n: p.grad for n, p in m.named_parameters()} for m in (ours, theirs)), **tolerance)
    for layer in (theirs, ours):
        RESTORE[how](layer)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert all(isinstance(weight, nn.Parameter) for weight in ours._flat_weights)
    same(flat(ours(x)), flat(theirs(x)), **tolerance)
    assert re.fullmatch(rf"{name}\({I}, {H}\)", repr(ours))
