"""Programs that construct `nn.LSTM` themselves: in this process, and as scripts of their own."""

import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import LSTM as IMPORTED_BEFORE

import carousel

I, H = 3, 4
NAMES = ("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell")


@pytest.mark.parametrize("name", NAMES)
def test_constructors_give_ours_with_torchs_weights(name):
    torch.manual_seed(1)
    theirs = getattr(nn, name)(I, H)
    following = torch.rand(3)
    constructor = getattr(nn, name).__init__
    with carousel.patch():
        torch.manual_seed(1)
        ours = getattr(nn, name)(I, H)
        assert torch.equal(torch.rand(3), following), "the same random numbers were drawn"
    assert isinstance(ours, getattr(nn, name)) and isinstance(ours, getattr(carousel, name))
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))
    assert getattr(nn, name).__init__ is constructor and type(getattr(nn, name)(I, H)) is type(theirs)
    x = torch.randn(2, I)
    torch.testing.assert_close(ours(x), theirs(x))


def test_function_with_undo_by_any_name():
    undo = carousel.patch().undo
    try:
        assert isinstance(IMPORTED_BEFORE(I, H), carousel.LSTM)
        assert isinstance(torch.nn.modules.rnn.LSTM(I, H, num_layers=2, proj_size=2), carousel.LSTM)
    finally:
        undo()
    undo()
    assert type(IMPORTED_BEFORE(I, H)) is nn.LSTM


def test_nested_and_after_an_error():
    with pytest.raises(KeyError), carousel.patch():
        with carousel.patch():
            pass
        assert isinstance(nn.GRU(I, H), carousel.GRU)
        raise KeyError
    assert type(nn.GRU(I, H)) is nn.GRU


def test_restore_and_accelerate_while_patched():
    with carousel.patch():
        model = nn.Sequential(nn.LSTM(I, H))
        assert type(carousel.restore(model)[0]) is nn.LSTM
        assert isinstance(carousel.accelerate(model)[0], carousel.LSTM)
        assert type(carousel.LSTM(I, H).to_torch()).__mro__[1:]  # whatever it is, it is torch's


def test_subclasses_and_other_types_are_left_alone():
    class Mine(nn.LSTM):
        def __init__(self):
            super().__init__(I, H)
            self.extra = super().extra_repr()

    with carousel.patch():
        assert type(Mine()) is Mine and Mine().extra == "3, 4"
        assert type(nn.LSTM(I, H, dtype=torch.bfloat16)) is nn.LSTM
        with pytest.raises(TypeError, match="hidden_size"):
            nn.LSTM(I, "many")


PROGRAM = """
import sys
import torch
from torch.nn import LSTM
import helper
torch.manual_seed(0)
layer = LSTM(3, 4)
print(__name__, sys.argv[1:], type(layer).__module__, helper.X, float(layer(torch.ones(2, 1, 3))[0].detach().sum()))
"""


def run(*arguments, cwd):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=cwd)


@pytest.mark.slow
def test_scripts(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "helper.py").write_text("X = 7")
    plain = run("program.py", "--epochs", "3", cwd=tmp_path).stdout.split()
    script = run("-m", "carousel.patch", "program.py", "--epochs", "3", cwd=tmp_path)
    module = run("-m", "carousel.patch", "-m", "program", "--epochs", "3", cwd=tmp_path)
    for done in (script, module):
        assert not done.stderr
        words = done.stdout.split()
        assert words[:3] == plain[:3] == ["__main__", "['--epochs',", "'3']"]
        assert (plain[3], words[3]) == ("torch.nn.modules.rnn", "carousel.layers.drop_in")
        assert abs(float(words[5]) - float(plain[5])) < 1e-5


@pytest.mark.slow
def test_script_errors(tmp_path):
    (tmp_path / "fails.py").write_text("raise SystemExit(3)")
    assert run("-m", "carousel.patch", "fails.py", cwd=tmp_path).returncode == 3
    done = run("-m", "carousel.patch", "missing.py", cwd=tmp_path)
    assert done.returncode == 1 and done.stderr == (
        "python -m carousel.patch: there is no file missing.py; a module is given with -m\n"
    )
    assert "usage:" in run("-m", "carousel.patch", cwd=tmp_path).stderr
    assert "usage:" in run("-m", "carousel.patch", "--help", cwd=tmp_path).stdout
