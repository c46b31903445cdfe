"""torch's own sample inputs for its recurrent modules (`torch.testing._internal`), given to ours."""

import pytest
import torch
from torch import nn

import carousel

pytest.importorskip("expecttest", reason="torch's test data needs it: pip install expecttest")
common_modules = pytest.importorskip("torch.testing._internal.common_modules")

NAMES = ("RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell")
INFOS = {info.name.removeprefix("nn."): info for info in common_modules.module_db if info.name[3:] in NAMES}


def samples(name, train, dtype=torch.float64):
    return INFOS[name].module_inputs_func(INFOS[name], "cpu", dtype, True, train)


def test_torch_ships_samples_of_every_module():
    assert {*INFOS} == {*NAMES} and all(samples(name, True) for name in NAMES)


@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name", NAMES)
def test_samples(name, train):
    """Output, state and every gradient are those of torch's module with the same weights, and the sample's own
    reference, where it has one, agrees."""
    for sample in samples(name, train):
        made = sample.constructor_input
        theirs = getattr(nn, name)(*made.args, **made.kwargs, dtype=torch.float64).train(train)
        ours = getattr(carousel, name)(*made.args, **made.kwargs, dtype=torch.float64).train(train)
        ours.load_state_dict(theirs.state_dict())
        args, options = sample.forward_input.args, sample.forward_input.kwargs
        results = []
        for module in (ours, theirs):
            output = module(*args, **options)
            flat = [t for t in flatten(output) if t.requires_grad]
            wanted = [*module.parameters(), *(t for t in flatten(args) if t.requires_grad)]
            results.append((output, torch.autograd.grad(sum(t.square().sum() for t in flat), wanted)))
        torch.testing.assert_close(results[0], results[1])
        if sample.reference_fn is not None:
            expected = sample.reference_fn(ours, *args, **options)
            torch.testing.assert_close(results[0][0], expected)


def flatten(value):
    if isinstance(value, nn.utils.rnn.PackedSequence):
        return [value.data]
    if isinstance(value, tuple | list):
        return [t for part in value for t in flatten(part)]
    return [value]
