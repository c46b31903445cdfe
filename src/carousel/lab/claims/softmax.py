"""Softmax with cross-entropy: its Jacobian, its gradient, and the chain rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Annotated, Any

import torch
from torch import Tensor

from ...errors import check_counts
from ...report import figure
from ..claim import Claim, Numbers, Verdict, fails, holds, holds_for
from ..finding import Exercise, Step, Table
from ..measured import Clock, Measured
from ..options import Option, Seed, Seeds, help_text
from ..words import power

EXACT = 1e-9


def _within(key: str, text: str) -> Callable[[Numbers, float], Verdict]:
    """Decide by the largest difference that was measured under `key`; `text` has a place for it."""

    def decide(numbers: Numbers, tolerance: float) -> Verdict:
        apart = max(numbers["apart"][key])
        reason = text.format(power(apart))
        return holds(reason) if apart <= tolerance else fails(reason)

    return decide


def _sum(numbers: Numbers, tolerance: float) -> Verdict:
    printed, corrected = (max(numbers["apart"][key]) for key in ("printed_sum", "corrected_sum"))
    text = (
        f"The printed sum is up to {power(printed)} off; the corrected one, which gives equation 38, "
        f"{power(corrected)}."
    )
    return holds(text) if printed <= tolerance else fails(text)


def _gradient(numbers: Numbers, tolerance: float) -> Verdict:
    apart, total = max(numbers["apart"]["gradient"]), max(numbers["apart"]["target_sum"])
    text = (
        f"ŷ − y differs by at most {power(apart)}. The notes define no t^t: what is one-hot is the target y^t, whose "
        f"sum is {'exactly 1' if not total else f'1 to {power(total)}'}."
    )
    return holds_for("y^t in the place of t^t", text) if max(apart, total) <= tolerance else fails(text)


def _outer(numbers: Numbers, tolerance: float) -> Verdict:
    outer, inner = max(numbers["apart"]["outer"]), numbers["inner_shape"]
    text = (
        f"U is {numbers['words']}×{numbers['hidden']}, and so is the outer product (ŷ − y)hᵀ, which is at most "
        f"{power(outer)} from automatic differentiation, without b₂ and with it. The product of the "
        f"two vectors as it is printed {'has no meaning' if inner is None else f'is of shape {inner}'}: they have "
        f"{numbers['words']} and {numbers['hidden']} entries."
    )
    return fails(text) if outer <= tolerance else fails(f"Not even the outer product is right. {text}")


class Softmax(Measured):
    """What :func:`run` gives."""

    name = "softmax"
    title = "Softmax, cross-entropy, and the chain rule"
    claims = (
        Claim(
            "chain",
            "combining the derivatives of the constituent operations through the chain rule gives the derivative of "
            "the overall composition",
            "003 §5.1, equations 7–19",
            "the six products of Jacobians differ from automatic differentiation by at most {tolerance}.",
            _within("chain", "The six gradients of the network with three layers differ by at most {}."),
            tolerance=EXACT,
            printed=(
                r"\frac{\partial L}{\partial w_1} = \frac{\partial L}{\partial h_3} \cdot "
                r"\frac{\partial h_3}{\partial z_3} \cdot \frac{\partial z_3}{\partial h_2} \cdot "
                r"\frac{\partial h_2}{\partial z_2} \cdot \frac{\partial z_2}{\partial h_1} \cdot "
                r"\frac{\partial h_1}{\partial z_1} \cdot \frac{\partial z_1}{\partial w_1}",
            ),
        ),
        Claim(
            "jacobian",
            "Therefore, the Jacobian of the softmax will be: … Thus, we have",
            "003 §5.2.1, before equation 25, and equations 26, 27 and 36",
            "the formula differs from automatic differentiation and from central differences by at most {tolerance}.",
            _within("jacobian", "The formula differs by at most {} from either."),
            tolerance=1e-8,
            printed=(
                r"\hat{y}_k^t = \text{softmax}(q_l^t)",
                r"\hat{y}_k^t : \begin{bmatrix} q_1^t \\ \vdots \\ q_N^t \end{bmatrix} \rightarrow "
                r"\begin{bmatrix} \hat{y}_1^t \\ \vdots \\ \hat{y}_N^t \end{bmatrix}",
                r"\frac{\partial \hat{y}_k^t}{\partial q_l^t} = \begin{cases} -\hat{y}_k^t \hat{y}_l^t, & \text{if } k "
                r"\neq l \\ \hat{y}_k^t (1 - \hat{y}_l^t), & \text{if } k = l \end{cases}",
            ),
            corrected=(
                r"\hat{y}^t = \text{softmax}(q^t)",
                r"\hat{y}^t : \begin{bmatrix} q_1^t \\ \vdots \\ q_N^t \end{bmatrix} \rightarrow "
                r"\begin{bmatrix} \hat{y}_1^t \\ \vdots \\ \hat{y}_N^t \end{bmatrix}",
            ),
        ),
        Claim(
            "sum",
            "If we put Equation 24 and 36 together, gives us a sum over all values of k",
            "003 §5.2.1, before equation 24, and equation 37",
            "the printed sum differs from automatic differentiation by at most {tolerance}.",
            _sum,
            tolerance=1e-8,
            printed=(
                r"L^t = -y_k^t \log \hat{y}_k^t",
                r"-\frac{y_l^t}{\hat{y}_l^t} \cdot \hat{y}_l^t + \sum_{k \neq l} "
                r"\left(\frac{y_k^t}{\hat{y}_k^t} \right) \cdot (-\hat{y}_k^t \hat{y}_l^t)",
            ),
            corrected=(
                r"L^t = -\sum_k y_k^t \log \hat{y}_k^t",
                r"-\frac{y_l^t}{\hat{y}_l^t} \cdot \hat{y}_l^t (1 - \hat{y}_l^t) + \sum_{k \neq l} "
                r"\left(-\frac{y_k^t}{\hat{y}_k^t} \right) \cdot (-\hat{y}_k^t \hat{y}_l^t)",
            ),
        ),
        Claim(
            "gradient",
            "If you recall that t^t are all one-hot vectors, then that sum is just equal to 1. So we have",
            "003 §5.2.1, equation 40",
            "ŷ − y differs from automatic differentiation, and the sum of the target from 1, by at most {tolerance}.",
            _gradient,
            tolerance=EXACT,
            printed=(r"t^t", r"\frac{\partial L^t}{\partial q_l^t} = \hat{y}_l^t - y_l^t"),
            corrected=(r"y^t",),
        ),
        Claim(
            "outer",
            "If we put Equation 40 and 44, we have",
            "003 §5.2.1, before equation 23, and equations 23 and 45",
            "the product as printed exists and is the gradient of U; the outer product is compared to {tolerance}.",
            _outer,
            tolerance=EXACT,
            printed=(
                r"q^t = U \cdot h^{(t)}",
                r"\frac{\partial L^t}{\partial U_{ij}} = \frac{\partial L^t}{\partial \hat{y}_k^t} \cdot "
                r"\frac{\partial \hat{y}_k^t}{\partial q_l^t} \cdot \frac{\partial q_l^t}{\partial V_{ij}}",
                r"\frac{\partial L^t}{\partial U} = (\hat{y}^t - y^t) \cdot h_t",
            ),
            corrected=(
                r"q^t = U \cdot h^{(t)} + b_2",
                r"\frac{\partial L^t}{\partial U_{ij}} = \sum_{k, l} \frac{\partial L^t}{\partial \hat{y}_k^t} "
                r"\cdot \frac{\partial \hat{y}_k^t}{\partial q_l^t} \cdot \frac{\partial q_l^t}{\partial U_{ij}}",
                r"\frac{\partial L^t}{\partial U} = (\hat{y}^t - y^t) \otimes h_t",
            ),
        ),
    )
    derivation = (
        Step(
            "Off the diagonal the numerator does not depend on \\(q_l\\) (equations 30 to 32).",
            r"\frac{\partial \hat{y}_k}{\partial q_l} = -\hat{y}_k \hat{y}_l, \quad k \neq l",
            "off_diagonal", 1e-8,
        ),
        Step(
            "On it, the quotient rule has both terms (equations 33 to 35).",
            r"\frac{\partial \hat{y}_k}{\partial q_k} = \hat{y}_k (1 - \hat{y}_k)",
            "diagonal", 1e-8,
        ),
        Step(
            "Each row of the Jacobian sums to zero: adding one number to all \\(q\\) changes nothing.",
            r"\sum_l \frac{\partial \hat{y}_k}{\partial q_l} = 0",
            "row_sums", 1e-12,
        ),
        Step(
            "The chain rule through \\(\\hat{y}\\), where \\(y\\) sums to 1 (equations 37, corrected, to 40).",
            r"-y_l (1 - \hat{y}_l) + \sum_{k \neq l} y_k \hat{y}_l = \hat{y}_l - y_l",
            "collapsed", 1e-12,
        ),
    )  # fmt: skip
    exercises = (
        Exercise(
            "Let y be no one-hot vector, but a distribution (label smoothing). What of the derivation changes?",
            "Nothing: only the sum of \\(y\\) is used, and it is 1. The gradient is still \\(\\hat{y} - y\\).",
        ),
        Exercise(
            "Why is the Jacobian of the softmax singular?",
            "Its rows sum to zero, so the vector of ones is in its null space: softmax does not see a number that is "
            "added to all scores.",
        ),
    )
    code = """
import torch

q = torch.randn(5, dtype=torch.float64, requires_grad=True)
y = q.softmax(0)
print(torch.diag(y) - torch.outer(y, y))                                     # equation 36
print(torch.autograd.functional.jacobian(lambda q: q.softmax(0), q))
"""
    captions = {
        "jacobian": ("The Jacobian of the softmax", "For the first seed. Its rows and columns sum to zero."),
    }

    @staticmethod
    def lead(numbers: Numbers) -> str:
        apart = {key: max(values) for key, values in numbers["apart"].items()}
        return (
            f"The Jacobian and the gradient ŷ − y agree with automatic differentiation to "
            f"{power(max(apart['jacobian'], apart['gradient']))}; equation 37 as printed is {apart['printed_sum']:.2g} "
            "off, and equation 45 needs an outer product."
        )

    @staticmethod
    def table(numbers: Numbers) -> Table:
        names = {
            "chain": "chain rule, equations 14–19", "jacobian": "Jacobian, equation 36",
            "printed_sum": "sum, equation 37 as printed", "corrected_sum": "sum, equation 37 corrected",
            "gradient": "gradient, equation 40", "outer": "gradient of U, outer product",
        }  # fmt: skip
        rows = [[name, power(max(numbers["apart"][key]))] for key, name in names.items()]
        return ["formula", "largest difference"], rows

    def setup(self) -> Sequence[str]:
        n = self.measured
        return (
            f"In double precision, for {len(n['seeds'])} random seeds: scores of {n['words']} words from a state of "
            f"{n['hidden']} units, and a network of three layers as in equations 7 to 13. Every formula is computed as "
            "it is written and compared with automatic differentiation; the Jacobian also with central differences.",
        )

    def figures(self) -> dict[str, Any]:
        drawn = figure(380, hovermode="closest")
        values = self.measured["example"]
        words = [f"q{k + 1}" for k in range(len(values))]
        drawn.add_heatmap(
            z=values, x=words, y=[f"ŷ{k + 1}" for k in range(len(values))], colorscale="RdBu", zmid=0,
        )  # fmt: skip
        drawn.update_yaxes(autorange="reversed")
        return {"jacobian": drawn}


HELP = help_text(__doc__, "softmax", "--words 20 --out softmax")


def run(
    words: Annotated[int, Option("Words that are scored.", "V", minimum=2)] = 6,
    *,
    hidden: Annotated[int, Option("Units of the state.", "H", minimum=1)] = 4,
    seeds: Seeds = 5,
    seed: Seed = 0,
) -> Softmax:
    """Compute each formula as it is written, and the same by automatic differentiation.

    >>> result = run(3, hidden=2, seeds=1)
    >>> result.verdicts()["jacobian"].short
    'holds'
    """
    check_counts(words=words, hidden=hidden, seeds=seeds)
    clock = Clock()
    apart: dict[str, list[float]] = {}
    derivation: dict[str, float] = {}
    example: list[list[float]] = []
    for number in range(seed, seed + seeds):
        generator = torch.Generator().manual_seed(number)
        U, h, q = (
            torch.randn(*shape, dtype=torch.float64, generator=generator)
            for shape in ((words, hidden), (hidden,), (words,))
        )
        target = torch.zeros(words, dtype=torch.float64)
        target[int(torch.randint(words, (), generator=generator))] = 1
        measured, steps = of_softmax(q, target)
        measured["chain"] = of_layers(generator)
        b = torch.randn(words, dtype=torch.float64, generator=generator)
        measured["outer"] = max(of_output(U, h, bias, target) for bias in (torch.zeros_like(b), b))
        for key, value in measured.items():
            apart.setdefault(key, []).append(value)
        derivation = {key: max(value, derivation.get(key, 0.0)) for key, value in steps.items()}
        if not example:
            y = q.softmax(0)
            example = (torch.diag(y) - torch.outer(y, y)).tolist()
    data = {
        "apart": apart, "derivation": derivation, "words": words, "hidden": hidden, "example": example,
        "inner_shape": [] if words == hidden else None, "seeds": list(range(seed, seed + seeds)),
    }  # fmt: skip
    return Softmax(data, clock.seconds)


def of_softmax(q: Tensor, target: Tensor) -> tuple[dict[str, float], dict[str, float]]:
    """How far the formulas for q (V) and a one-hot `target` (V) are from what they should be; the steps between."""
    y = q.softmax(0)
    formula = torch.diag(y) - torch.outer(y, y)
    automatic: Tensor = torch.autograd.functional.jacobian(lambda q: q.softmax(0), q)
    step = 1e-5
    shifts = step * torch.eye(len(q), dtype=q.dtype)
    differences = torch.stack([((q + s).softmax(0) - (q - s).softmax(0)) / (2 * step) for s in shifts], 1)
    leaf = q.clone().requires_grad_()
    [gradient] = torch.autograd.grad(-(target * leaf.log_softmax(0)).sum(), leaf)
    others = target.sum() - target  # of k ≠ l
    collapsed = -target * (1 - y) + others * y
    off = ~torch.eye(len(q), dtype=torch.bool)
    measured = {
        "jacobian": max(_apart(formula, automatic), _apart(formula, differences)),
        "printed_sum": _apart(-target - others * y, gradient),
        "corrected_sum": _apart(collapsed, gradient),
        "gradient": _apart(y - target, gradient),
        "target_sum": abs(float(target.sum()) - 1),
    }
    steps = {
        "off_diagonal": _apart(formula[off], differences[off]),
        "diagonal": _apart((y * (1 - y)), differences.diagonal()),
        "row_sums": float(automatic.sum(1).abs().max()),
        "collapsed": _apart(collapsed, y - target),
    }
    return measured, steps


def of_output(U: Tensor, h: Tensor, b: Tensor, target: Tensor) -> float:
    """How far (ŷ − y) hᵀ is from the gradient of U (V, H), for scores U h + b."""
    leaf = U.clone().requires_grad_()
    [gradient] = torch.autograd.grad(-(target * (leaf @ h + b).log_softmax(0)).sum(), leaf)
    return _apart(torch.outer((U @ h + b).softmax(0) - target, h), gradient)


def of_layers(generator: torch.Generator, rows: int = 5, sizes: Sequence[int] = (3, 4, 3, 2)) -> float:
    """How far the products of equations 14 to 19 are from the gradients of the network of equations 7 to 13."""
    draw = [torch.randn(b, a, dtype=torch.float64, generator=generator) for a, b in pairwise(sizes)]
    biases = [torch.randn(size, dtype=torch.float64, generator=generator) for size in sizes[1:]]
    x, y = (torch.randn(rows, size, dtype=torch.float64, generator=generator) for size in (sizes[0], sizes[-1]))
    leaves = [p.clone().requires_grad_() for p in (*draw, *biases)]
    h = x
    for w, b in zip(leaves[:3], leaves[3:], strict=True):
        h = torch.sigmoid(h @ w.T + b)
    automatic = torch.autograd.grad((y - h).square().sum() / rows, leaves)
    states = [x]
    for w, b in zip(draw, biases, strict=True):
        states.append(torch.sigmoid(states[-1] @ w.T + b))
    δ = -2 / rows * (y - states[3]) * states[3] * (1 - states[3])  # ∂L/∂h₃ · ∂h₃/∂z₃
    weights: list[Tensor] = []
    offsets: list[Tensor] = []
    for layer in (2, 1, 0):
        weights.insert(0, δ.T @ states[layer])  # · ∂z/∂w
        offsets.insert(0, δ.sum(0))  # · ∂z/∂b
        δ = (δ @ draw[layer]) * states[layer] * (1 - states[layer])  # · ∂z/∂h · ∂h/∂z of the layer below
    return max(_apart(a, b) for a, b in zip((*weights, *offsets), automatic, strict=True))


def _apart(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())
