"""The page on the mathematics: what it names exists, and formulas of it are the gradients."""

import itertools
import re
from pathlib import Path

import pytest
import torch

from carousel.cells import registry
from carousel.lab import LABS
from carousel.networks.attention import Attention, make_attention

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "mathematics.md").read_text("utf-8")


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(tests/[\w/]+\.py)`", TEXT))))
def test_a_test_that_is_named_exists(path):
    assert (ROOT / path).is_file()


def test_every_cell_has_its_equations():
    files = {Path(cell.__module__.replace(".", "/")).name for cell in registry().values()}
    assert {f"cells/{name}.py" for name in files} == set(re.findall(r"### .*\(`(cells/\w+\.py)`\)", TEXT))


def test_every_kind_of_attention_has_its_derivative():
    options = {"location": {"places": 3}}
    kinds = {type(make_attention(name, 4, 4, **options.get(name, {}))).__name__ for name in Attention.names}
    assert kinds == set(re.findall(r"^\| `([A-Z]\w+)` \|", TEXT, re.M))


def test_every_lab_that_is_named_exists():
    assert set(re.findall(r"`carousel lab ([\w-]+)`", TEXT)) <= set(LABS)


# ---------------------------------------------------------------- formulas as the page has them


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("reset", ["after", "before"])
def test_a_step_of_the_gru_backwards(reset):
    torch.manual_seed(0)
    names = ("W_r", "W_z", "W_n", "U_r", "U_z", "U_n", "b_r", "b_z", "b_n", "b_hn")
    sizes = {"W": (3, 2), "U": (3, 3), "b": (3,)}
    p = {name: random(*sizes[name[0]]) for name in names}
    x, h_ = random(2), random(3)
    r = torch.sigmoid(p["W_r"] @ x + p["U_r"] @ h_ + p["b_r"])
    z = torch.sigmoid(p["W_z"] @ x + p["U_z"] @ h_ + p["b_z"])
    after = r * (p["U_n"] @ h_ + p["b_hn"])
    before = p["U_n"] @ (r * h_) + p["b_hn"]
    n = torch.tanh(p["W_n"] @ x + p["b_n"] + (after if reset == "after" else before))
    h = (1 - z) * n + z * h_
    d_h = torch.randn(3, dtype=torch.float64)
    found = dict(zip([*names, "x", "h_"], torch.autograd.grad(h, [*p.values(), x, h_], d_h), strict=True))

    d_z, d_n = d_h * (h_ - n), d_h * (1 - z)
    δ_n = d_n * (1 - n**2)
    e = p["U_n"].T @ δ_n
    d_r = δ_n * (p["U_n"] @ h_ + p["b_hn"]) if reset == "after" else e * h_
    δ_r, δ_z = d_r * r * (1 - r), d_z * z * (1 - z)
    through_n = p["U_n"].T @ (r * δ_n) if reset == "after" else r * e
    written = {
        "x": p["W_r"].T @ δ_r + p["W_z"].T @ δ_z + p["W_n"].T @ δ_n,
        "h_": p["U_r"].T @ δ_r + p["U_z"].T @ δ_z + through_n + d_h * z,
        "U_n": torch.outer(r * δ_n, h_) if reset == "after" else torch.outer(δ_n, r * h_),
        "b_hn": r * δ_n if reset == "after" else δ_n,
    }
    for gate, δ in {"r": δ_r, "z": δ_z, "n": δ_n}.items():
        written |= {f"W_{gate}": torch.outer(δ, x), f"b_{gate}": δ}
    written |= {"U_r": torch.outer(δ_r, h_), "U_z": torch.outer(δ_z, h_)}
    torch.testing.assert_close(found, written)


def test_the_recursions_of_the_conditional_random_field():
    """log Z and the probabilities of one tag and of two, against sums over all taggings."""
    torch.manual_seed(0)
    steps, tags = 4, 3
    E, A, start, end = random(steps, tags), random(tags, tags), random(tags), random(tags)
    a, b = [start + E[0]], [end]
    for t in range(1, steps):
        a.append(E[t] + torch.logsumexp(a[-1][:, None] + A, 0))
    for t in range(steps - 1, 0, -1):
        b.insert(0, torch.logsumexp(A + E[t] + b[0], 1))
    log_z = torch.logsumexp(a[-1] + end, 0)

    total, one, two = 0.0, torch.zeros_like(E), torch.zeros(steps - 1, tags, tags, dtype=torch.float64)
    for y in itertools.product(range(tags), repeat=steps):
        score = start[y[0]] + end[y[-1]] + sum(E[t, k] for t, k in enumerate(y))
        share = (score + sum(A[i, j] for i, j in itertools.pairwise(y))).exp().detach()
        total += share
        for t, k in enumerate(y):
            one[t, k] += share
        for t, (i, j) in enumerate(itertools.pairwise(y)):
            two[t, i, j] += share
    torch.testing.assert_close(log_z, torch.log(total))
    for t in range(steps):
        torch.testing.assert_close((a[t] + b[t] - log_z).exp(), one[t] / total)
    for t in range(steps - 1):
        torch.testing.assert_close((a[t][:, None] + A + E[t + 1] + b[t + 1] - log_z).exp(), two[t] / total)
    by_e, by_a = torch.autograd.grad(log_z, [E, A])
    torch.testing.assert_close(by_e, one / total)
    torch.testing.assert_close(by_a, two.sum(0) / total)


def test_a_layer_norm_lstm_has_another_gradient_for_o():
    """∇o and ∇c of h = o ∘ tanh LN(c)."""
    torch.manual_seed(0)
    o, c, γ, β = random(5), random(5), random(5), random(5)
    s = (c.var(correction=0) + 1e-5).sqrt()
    n = (c - c.mean()) / s
    hidden = torch.tanh(γ * n + β)
    d_h = torch.randn(5, dtype=torch.float64)
    found = torch.autograd.grad(o * hidden, [o, c, γ, β], d_h)
    d = d_h * o * (1 - hidden**2)
    scaled = γ * d
    by_c = (scaled - scaled.mean() - n * (scaled * n).mean()) / s
    torch.testing.assert_close(found, (d_h * hidden, by_c, d * n, d))
