"""`carousel.accelerate` on models as people write them: beside an untouched copy, every number and every attachment."""

import copy
import io
import logging

import numpy as np
import pytest
import torch
from helpers.references import close
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

import carousel

T, B, I, H = 5, 3, 4, 6
LAYERS = {
    "lstm": lambda: nn.LSTM(I, H, 2, batch_first=True, dropout=0.0, bidirectional=True),
    "projected": lambda: nn.LSTM(I, H, proj_size=2),
    "gru": lambda: nn.GRU(I, H, 2, bias=False),
    "rnn": lambda: nn.RNN(I, H, nonlinearity="relu"),
    "lstm cell": lambda: nn.LSTMCell(I, H),
    "gru cell": lambda: nn.GRUCell(I, H, bias=False),
    "rnn cell": lambda: nn.RNNCell(I, H, nonlinearity="relu"),
}
layers = pytest.mark.parametrize("name", LAYERS)


def example(module):
    return torch.randn(B, I, dtype=torch.float64) if "Cell" in type(module).__name__ else torch.randn(
        B, T, I, dtype=torch.float64
    )  # fmt: skip


def flat(result):
    return [t for part in result for t in flat(part)] if isinstance(result, tuple | list) else [result]


def run(module, x):
    """Everything a call returns, and every gradient."""
    results = flat(module(x))
    parameters = list(module.parameters())
    return results, torch.autograd.grad(sum(r.square().sum() for r in results), parameters)


@layers
def test_the_module_stays_and_its_results(name):
    theirs = LAYERS[name]().double()
    module, x = copy.deepcopy(theirs), example(theirs)
    names, parameters, state = dict(module.named_parameters()), list(module.parameters()), module.state_dict()
    assert carousel.accelerate(module) is module
    assert isinstance(module, type(theirs)) and isinstance(module, getattr(carousel, type(theirs).__name__))
    assert type(module).__name__ == type(theirs).__name__
    assert all(a is b for a, b in zip(module.parameters(), parameters, strict=True))
    assert list(dict(module.named_parameters())) == list(names) and list(module.state_dict()) == list(state)
    close(run(module, x)[0], run(theirs, x)[0])
    close(run(module, x)[1], run(theirs, x)[1])
    with torch.no_grad():
        close(flat(module(x)), flat(theirs(x)))
    assert carousel.restore(module) is module
    assert type(module) is type(theirs) and repr(module) == repr(theirs)
    assert {*vars(module)} == {*vars(theirs)}
    assert all(a is b for a, b in zip(module.parameters(), parameters, strict=True))
    close(run(module, x)[1], run(theirs, x)[1])


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.LSTM(I, H, batch_first=True, bidirectional=True)
        self.cell = nn.GRUCell(2 * H, H)
        self.head = nn.Linear(H, 2)

    def forward(self, x):
        y, _ = self.encoder(x)
        h = None
        for t in range(y.shape[1]):
            h = self.cell(y[:, t], h)
        return self.head(h)


def test_training_is_torchs():
    """An optimizer made before goes on with the parameters it has, with its own state."""
    theirs = Tagger().double()
    model = copy.deepcopy(theirs)
    optimizers = [torch.optim.Adam(m.parameters(), 0.01) for m in (theirs, model)]
    x, y = torch.randn(B, T, I, dtype=torch.float64), torch.tensor([0, 1, 1])
    for step in range(6):
        if step == 2:
            carousel.accelerate(model)
        if step == 4:
            carousel.restore(model)
        for m, optimizer in zip((theirs, model), optimizers, strict=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(m(x), y).backward()
            optimizer.step()
    close(list(model.parameters()), list(theirs.parameters()))


def test_hooks_mode_and_flags_stay():
    module = nn.LSTM(I, H).eval()
    module.weight_hh_l0.requires_grad_(False)
    module.note = "mine"
    calls = []
    handle = module.register_forward_hook(lambda *_: calls.append("forward"))
    module.register_forward_pre_hook(lambda *_: calls.append("before"))
    module.register_full_backward_hook(lambda *_: calls.append("backward"))
    module.register_state_dict_post_hook(lambda *_: calls.append("state"))
    module.register_load_state_dict_post_hook(lambda *_: calls.append("load"))
    carousel.accelerate(module)
    assert not module.training and not module.weight_hh_l0.requires_grad and module.note == "mine"
    module(torch.randn(T, B, I, requires_grad=True))[0].sum().backward()
    module.load_state_dict(module.state_dict())
    assert calls == ["before", "forward", "backward", "state", "load"]
    handle.remove()
    calls.clear()
    carousel.restore(module)
    module(torch.randn(T, B, I, requires_grad=True))[0].sum().backward()
    assert calls == ["before", "backward"] and module.note == "mine"


@pytest.mark.filterwarnings("ignore:.*weight_norm.*deprecated:FutureWarning")
@pytest.mark.parametrize("how", ["parametrization", "weight_norm", "prune", "spectral"])
@pytest.mark.parametrize("name", ["lstm", "gru cell"])
def test_weights_made_from_others(name, how):
    weight = "weight_hh" if "cell" in name else "weight_hh_l0"

    def build():
        torch.manual_seed(3)
        made = LAYERS[name]().double().eval()
        if how == "parametrization":
            parametrizations.weight_norm(made, weight)
        elif how == "weight_norm":
            nn.utils.weight_norm(made, weight)
        elif how == "prune":
            prune.l1_unstructured(made, weight, 0.3)
        else:
            parametrizations.spectral_norm(made, weight)
        return made

    theirs, module = build(), carousel.accelerate(build())
    x = example(theirs)
    with torch.no_grad():
        for m in (module, theirs):
            next(p for n, p in m.named_parameters() if "hh" in n).mul_(2)  # the original, not what is made of it
    close(run(module, x)[0], run(theirs, x)[0])
    close(run(module, x)[1], run(theirs, x)[1])
    carousel.restore(module)
    close(run(module, x)[1], run(theirs, x)[1])
    if how == "parametrization":
        carousel.accelerate(module)
        parametrize.remove_parametrizations(module, weight)
        assert type(module).__module__ == "carousel.layers.drop_in"
        close(flat(module(x)), flat(theirs(x)))


def test_shared_modules_stay_shared():
    shared = nn.LSTM(I, H)
    model = nn.ModuleDict({"a": shared, "b": nn.Sequential(shared), "c": nn.GRU(I, H)})
    elsewhere = [shared]  # a reference that no module holds
    carousel.accelerate(model)
    assert model["a"] is model["b"][0] is elsewhere[0] and isinstance(elsewhere[0], carousel.LSTM)


def test_a_copy_leaves_the_model():
    model = Tagger()
    fast = carousel.accelerate(model, inplace=False)
    assert fast is not model and type(model.encoder) is nn.LSTM and isinstance(fast.encoder, carousel.LSTM)
    assert not {p.data_ptr() for p in fast.parameters()} & {p.data_ptr() for p in model.parameters()}


class Described(nn.LSTM):
    def __init__(self, size):
        super().__init__(size, size)


class Own(nn.LSTM):
    def forward(self, x, hx=None):
        return super().forward(2 * x, hx)


class Helped(nn.GRU):
    def start(self):
        return torch.zeros(1)


def test_a_subclass_without_code_of_its_own():
    module = carousel.accelerate(Described(I))
    assert isinstance(module, carousel.LSTM) and type(carousel.restore(module)) is Described


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
def test_what_is_left_alone_and_why(caplog):
    replaced = nn.GRU(I, H)
    replaced.forward = lambda x: x
    model = nn.ModuleDict(
        {
            "ours": carousel.LSTM(I, H),
            "own": Own(I, H),
            "helped": Helped(I, H),
            "replaced": replaced,
            "low": nn.LSTM(I, H, dtype=torch.bfloat16),
            "scripted": torch.jit.script(nn.LSTM(I, H)),
            "quantized": torch.ao.nn.quantized.dynamic.LSTM(I, H),
            "fine": nn.LSTMCell(I, H),
            "linear": nn.Linear(I, H),
        }
    )
    classes = {name: type(module) for name, module in model.items()}
    with caplog.at_level(logging.WARNING):
        carousel.accelerate(model)
    assert {name for name, module in model.items() if type(module) is not classes[name]} == {"fine"}
    reasons = {entry.name: entry.reason for entry in carousel.accelerated(model)}
    assert reasons == {
        "ours": "already Carousel's",
        "own": "the subclass Own has code of its own: forward",
        "helped": "the subclass Helped has code of its own: start",
        "replaced": "its forward was replaced",
        "low": "its dtype is torch.bfloat16; the kernels take float32 and float64",
        "scripted": "compiled by torch.jit",
        "quantized": "quantized",
        "fine": None,
    }
    for name, reason in reasons.items():
        assert (f"accelerate left {name} (" in caplog.text) == (reason is not None)
    table = str(carousel.accelerated(model))
    assert len(table.splitlines()) == 2 + len(reasons) and "own        Own" in table
    assert [entry.name for entry in carousel.accelerated(model).left_alone] == [n for n, r in reasons.items() if r]


def test_other_devices_are_left_alone(monkeypatch):
    """CUDA layers run cuDNN; the check needs no GPU."""
    module = nn.LSTM(I, H)
    monkeypatch.setattr(nn.Parameter, "device", torch.device("cuda:0"), raising=False)
    assert carousel.accelerated(module)[0].reason == "on cuda:0; the kernels run on CPUs"


def test_the_report_before_and_of_nothing():
    assert carousel.accelerated(nn.LSTM(I, H))[0].reason == "call carousel.accelerate(model)"
    assert str(carousel.accelerated(nn.Linear(1, 1))) == "no recurrent modules"
    for function in (carousel.accelerate, carousel.restore, carousel.accelerated):
        with pytest.raises(TypeError, match=r"takes a torch\.nn\.Module, got list"):
            function([nn.LSTM(I, H)])


def test_twice_is_once_and_restore_keeps_our_own():
    model = nn.ModuleList([nn.LSTM(I, H), carousel.GRU(I, H)])
    carousel.accelerate(carousel.accelerate(model))
    carousel.restore(model)
    assert type(model[0]) is nn.LSTM and type(model[1]) is carousel.GRU


@layers
def test_files_and_copies(name):
    module = carousel.accelerate(LAYERS[name]())
    x = example(module).float()
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    for other in (copy.deepcopy(module), loaded):
        assert type(other) is type(module) and repr(other) == repr(module)
        close(flat(other(x)), flat(module(x)))
        assert type(carousel.restore(other)).__module__ == "torch.nn.modules.rnn"


@pytest.mark.parametrize("move", [lambda m: m.double(), lambda m: m.to("meta"), lambda m: m.bfloat16()])
def test_dtype_and_device_can_change_afterwards(move):
    theirs = nn.LSTM(I, H)
    module = move(carousel.accelerate(copy.deepcopy(theirs)))
    weight = module.weight_ih_l0
    x = torch.randn(T, B, I).to(weight.device, weight.dtype)
    y, _ = module(x)
    assert y.dtype == weight.dtype and y.device == weight.device
    if weight.dtype == torch.float64:
        close(y, theirs.double()(x)[0])
    restored, _ = carousel.restore(module)(x)
    assert restored.dtype == weight.dtype


def test_a_new_one_of_the_same_class_starts_like_torchs():
    """`type(m)(…)`, as programs that clone layers write it, and `reset_parameters`."""
    module = carousel.accelerate(nn.LSTM(I, H))
    torch.manual_seed(5)
    expected = nn.LSTM(I, H).state_dict()
    torch.manual_seed(5)
    made = type(module)(I, H)
    torch.manual_seed(5)
    module.reset_parameters()
    for layer in (made, module):
        assert all(torch.equal(value, expected[name]) for name, value in layer.state_dict().items())


@pytest.mark.slow
def test_compiled_as_torchs_is():
    """Left out of the graph, like torch's own, and the results are the same."""
    model, x = Tagger(), torch.randn(B, T, I)
    expected = model(x)
    torch.compiler.reset()
    close(torch.compile(carousel.accelerate(model), backend="eager")(x), expected, rtol=1e-5, atol=1e-6)


# ---- what programs ask of a layer, by the programs' own code ----


def test_branches_on_isinstance():
    """As TorchRL's LSTMModule, joeynmt's decoder and espnet's language model have them."""
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        module = carousel.accelerate(kind(I, H))
        assert isinstance(module, kind) and isinstance(module, nn.RNNBase)
        assert [isinstance(module, other) for other in (nn.LSTM, nn.GRU, nn.RNN)].count(True) == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_quantization_after_restoring():
    model = carousel.accelerate(Tagger())
    x = torch.randn(B, T, I)
    quantized = torch.ao.quantization.quantize_dynamic(carousel.restore(model), {nn.LSTM})
    assert "quantized" in type(quantized.encoder).__module__
    close(quantized(x), model(x), rtol=0.2, atol=0.2)


class Flagged(nn.LSTM):
    flag = 3


class Mixed:
    def twice(self):
        return 2


class WithMixin(nn.LSTM, Mixed):
    pass


@pytest.mark.parametrize("make", [Flagged, WithMixin])
def test_a_subclass_keeps_what_it_has(make):
    model = nn.Sequential(make(3, 4))
    carousel.accelerate(model)
    assert type(model[0]) is make and isinstance(model[0], nn.LSTM)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.LSTM(3, 4, num_layers=np.int64(2)),
        lambda: nn.GRUCell(np.int64(3), np.int64(4)),
        lambda: nn.LSTMCell(3, 4, bias=0),
    ],
)
def test_what_torch_takes_for_numbers_and_flags(make):
    plain = make()
    model = nn.Sequential(plain)
    x = torch.randn(5, 2, 3) if isinstance(plain, nn.RNNBase) else torch.randn(2, 3)
    expected = plain(x)[0].detach()
    carousel.accelerate(model)
    torch.testing.assert_close(model[0](x)[0].detach(), expected)


def test_what_ours_refuses_is_left_alone():
    model = nn.ModuleList([nn.LSTM(3, 4), nn.LSTMCell(0, 4), nn.LSTM(3, 4)])
    model[2].cell = "mine"
    carousel.accelerate(model)
    assert isinstance(model[0], carousel.LSTM)
    assert type(model[1]) is nn.LSTMCell and type(model[2]) is nn.LSTM and model[2].cell == "mine"
