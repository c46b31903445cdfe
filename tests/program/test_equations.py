"""What a program prints: equations as one writes them, in text and in LaTeX."""

import pytest
import torch

import carousel
from carousel.cells import registry
from carousel.program import NotAProgram

MGU = """\
f = σ(W_f x + b_f + U_f h₋)
n = tanh(W_n x + b_n + U_n (f∘h₋))
h = (1 − f)∘h₋ + f∘n"""

MGU_BACKWARD = """\
dh = ∂h
dn = dh∘f
d(n) = dn∘(1 − n²)
t1 = U_nᵀ d(n)
df = dh∘n − dh∘h₋ + t1∘h₋
d(f) = df∘f∘(1 − f)
dh₋ = dh∘(1 − f) + t1∘f + U_fᵀ d(f)"""


class MinimalGatedUnit(carousel.Cell):
    gates = ("f", "n")

    def step(self, x, state, w, let):
        (h,) = state
        f = let("f", torch.sigmoid(x.f + w.U(h, "f")))
        n = let("n", torch.tanh(x.n + w.U(f * h, "n")))
        return (let("h", (1 - f) * h + f * n),)


def test_text_and_derivative():
    program = MinimalGatedUnit().program()
    assert str(program) == MGU
    assert str(program.derivative()) == MGU_BACKWARD
    assert repr(program).startswith("<program of MinimalGatedUnit: ")


def test_latex():
    latex = MinimalGatedUnit().program().latex()
    assert latex.splitlines() == [
        r"\begin{aligned}",
        r"f &= \sigma\left(W_{f} x + b_{f} + U_{f} h_{-}\right) \\",
        r"n &= \tanh\left(W_{n} x + b_{n} + U_{n} \left(f \circ h_{-}\right)\right) \\",
        r"h &= \left(1 - f\right) \circ h_{-} + f \circ n",
        r"\end{aligned}",
    ]
    assert MinimalGatedUnit().program()._repr_latex_().startswith("$$\n\\begin{aligned}")
    assert "_{-}" in MinimalGatedUnit().program().derivative().latex()


@pytest.mark.parametrize("name", [*registry()])
def test_every_built_in_cell_prints(name):
    """Every name that the step gives has an equation, and braces and parentheses match."""
    program = registry()[name]().program()
    for text in (str(program), program.latex(), str(program.derivative()), program.derivative().latex()):
        for opening, closing in ("()", "{}", "[]"):
            assert text.count(opening) == text.count(closing)
    lines = str(program).splitlines()
    for name in program.named:
        assert any(line.startswith(f"{name} = ") for line in lines)


def test_what_is_no_program_says_so():
    class Complex(carousel.Cell):
        gates = ("a",)
        states = {"h": carousel.cells.StateSpec(), "s": carousel.cells.StateSpec(dtype="complex")}

        def step(self, x, state, w, let):
            return x.a, state[1]

    with pytest.raises(NotAProgram, match="the state 's' of Complex is complex"):
        Complex().program()
