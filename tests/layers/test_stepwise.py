"""A layer walked step by step in training, against the same layer run at once."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import carousel
from carousel import layers
from carousel.layers import StepwiseLayer
from carousel.ops import stepwise as walk

MAKE = {
    "rnn": lambda i, h: layers.RNN(i, h),
    "lstm": lambda i, h: layers.LSTM(i, h),
    "two layers": lambda i, h: layers.LSTM(i, h, num_layers=2),
    "no bias": lambda i, h: layers.LSTM(i, h, bias=False),
    "projected": lambda i, h: layers.LSTM(i, h + 3, proj_size=h),
    "peephole": lambda i, h: layers.PeepholeLSTM(i, h),
    "coupled": lambda i, h: layers.CoupledLSTM(i, h),
    "layernorm": lambda i, h: layers.LayerNormLSTM(i, h),
    "gru": lambda i, h: layers.GRU(i, h),
    "reset before": lambda i, h: layers.ResetBeforeGRU(i, h),
}


def setting(layer, lengths):
    """Inputs, a first state as tensors and as the layer takes it, and how many sequences have each step."""
    steps, batch = max(lengths), len(lengths)
    x = torch.randn(steps, batch, layer.input_size, dtype=torch.float64, requires_grad=True)
    sizes = [layer.state_shape(name)[0] for name in layer.cell.states]
    parts = [torch.randn(layer.num_layers, batch, n, dtype=torch.float64, requires_grad=True) for n in sizes]
    batch_sizes = [sum(length > t for length in lengths) for t in range(steps)]
    return x, parts, parts[0] if len(parts) == 1 else tuple(parts), batch_sizes


def walked(layer, x, state, batch_sizes):
    walker = StepwiseLayer(layer, batch_sizes, state)
    return walker, [walker.step(x[t, :n]) for t, n in enumerate(batch_sizes)]


@settings(max_examples=40)
@given(
    st.sampled_from(sorted(MAKE)), st.lists(st.integers(1, 6), min_size=1, max_size=12), st.sampled_from([1, 5, 33]),
    st.sampled_from([1, 2]),
)  # fmt: skip
def test_as_the_layer_at_once(kind, lengths, size, threads):
    torch.manual_seed(size)
    lengths = sorted(lengths, reverse=True)
    layer = MAKE[kind](4, size).double()
    x, parts, state, batch_sizes = setting(layer, lengths)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        walker, ys = walked(layer, x, state, batch_sizes)
        assert walker.layers is not None
        expected, _ = layer(x, state, lengths=torch.tensor(lengths))
        factors = [torch.randn_like(y) for y in ys]
        wanted = [x, *parts, *layer.parameters()]
        last = [t for t in range(len(ys)) if t % 2 == 0]  # all steps, then every other, then the first alone
        for chosen in (range(len(ys)), last, [0]):
            mine = sum((ys[t] * factors[t]).sum() for t in chosen)
            theirs = sum((expected[t, : batch_sizes[t]] * factors[t]).sum() for t in chosen)
            torch.testing.assert_close(mine, theirs)
            found, right = (torch.autograd.grad(loss, wanted, retain_graph=True) for loss in (mine, theirs))
            for a, b in zip(found, right, strict=True):
                torch.testing.assert_close(a, b)
    finally:
        torch.set_num_threads(before)


def test_a_step_may_read_what_the_step_before_gave():
    """Gradients through the loop outside, by finite differences."""
    layer = layers.LSTM(5, 3).double()
    x, parts, _, batch_sizes = setting(layers.LSTM(2, 3), [3, 2, 2, 1])

    def run(x, h, c, *weights):
        with torch.no_grad():
            for parameter, value in zip(layer.parameters(), weights, strict=True):
                parameter.copy_(value)
        walker, y, found = StepwiseLayer(layer, batch_sizes, (h, c)), x.new_zeros(4, 3), []
        for t, n in enumerate(batch_sizes):
            y = walker.step(torch.cat((x[t, :n], y[:n].tanh()), 1))
            found.append(y)
        return torch.cat(found)

    weights = [p.detach().clone() for p in layer.parameters()]
    assert torch.autograd.gradcheck(run, (x, *parts, *weights))
    loss = run(x, *parts, *weights).square().sum()
    loss.backward()
    step = 1e-6
    for parameter in layer.parameters():
        with torch.no_grad():
            values = []
            for sign in (1, -1):
                parameter.flatten()[1] += sign * step
                values.append(run(x, *parts, *(p.clone() for p in layer.parameters())).square().sum())
                parameter.flatten()[1] -= sign * step
        assert parameter.grad.flatten()[1] == pytest.approx(float((values[0] - values[1]) / (2 * step)), rel=1e-5)


@pytest.mark.parametrize("options", [{"zoneout": 0.5}, {"learn_initial_state": True}])
def test_what_the_kernel_does_not_walk_goes_step_by_step(options):
    layer = layers.GRU(4, 3, **options).eval()
    batch_sizes = [3, 3, 1]
    x = torch.randn(3, 3, 4, requires_grad=True)
    walker, ys = walked(layer, x, None, batch_sizes)
    assert walker.layers is None
    expected, _ = layer(x, lengths=torch.tensor([3, 2, 2]))
    for t, n in enumerate(batch_sizes):
        torch.testing.assert_close(ys[t], expected[t, :n])
    assert torch.autograd.grad(sum(y.sum() for y in ys), x)[0].any()


def test_dropout_between_layers():
    torch.manual_seed(0)
    layer = layers.LSTM(4, 64, num_layers=2, dropout=0.5)
    _, [first] = walked(layer, torch.ones(1, 5, 4), None, [5])
    _, [again] = walked(layer, torch.ones(1, 5, 4), None, [5])
    assert not torch.equal(first, again)
    _, [first] = walked(layer.eval(), torch.ones(1, 5, 4), None, [5])
    torch.testing.assert_close(first, layer(torch.ones(1, 5, 4))[0][0])


def test_a_gradient_is_not_differentiated_again():
    layer = layers.LSTM(4, 3)
    x = torch.randn(1, 2, 4, requires_grad=True)
    _, [y] = walked(layer, x, None, [2])
    with pytest.raises(RuntimeError, match="can not be differentiated again"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


def test_nothing_stays_when_the_graph_is_gone():
    import gc
    import weakref

    gc.disable()
    try:
        walker, ys = walked(carousel.LSTM(4, 3), torch.randn(2, 2, 4), None, [2, 2])
        memory = weakref.ref(walker.layers[0].memory)
        assert isinstance(memory(), walk._Memory)
        sum(y.sum() for y in ys).backward()
        del walker, ys
        assert memory() is None
    finally:
        gc.enable()
