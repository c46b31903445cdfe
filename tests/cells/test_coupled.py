"""One step of the coupled LSTM, against the equations and an LSTM whose input gate is what the forget gate leaves."""

import pytest
import torch
from helpers.one_step import H, I, compare, random_parameters, step
from helpers.references import draw

from carousel.cells import LSTM, Coupled


@pytest.mark.parametrize("sizes", [{}, {"bias": False}, {"projected": 2}], ids=["plain", "no-bias", "projected"])
@pytest.mark.parametrize("peephole", [False, True])
def test_the_equations(peephole, sizes):
    compare("coupled-peephole" if peephole else "coupled", Coupled(peephole), **sizes)


def test_an_lstm_with_a_negated_input_gate():
    """1 − σ(a) = σ(−a): the LSTM with W_i = −W_f, U_i = −U_f and b_i = −b_f writes what is forgotten."""
    parameters = random_parameters(Coupled())
    lstm = {name: torch.cat([-value[:H], value]) for name, value in parameters.items()}
    x, state = draw(2, I), (draw(2, H, seed=2), draw(2, H, seed=3))
    named, new = step(Coupled(), parameters, x, state)
    theirs, expected = step(LSTM(), lstm, x, state)
    torch.testing.assert_close(new, expected)
    torch.testing.assert_close(1 - named["f"], theirs["i"])


def test_a_peephole_is_there_or_not():
    assert (Coupled().kernel(), Coupled(True).kernel()) == ("coupled", "coupled-peephole")
    with pytest.raises(ValueError, match="peephole must be True or False for a coupled LSTM, got 'full'"):
        Coupled("full")
