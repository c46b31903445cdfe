"""The index of the sources and the errata: every row has a target that exists; and errata that no lab shows."""

import importlib
import itertools
import math
import re
from pathlib import Path

import pytest
import torch

import carousel
from carousel.cli.main import main
from carousel.lab import LABS, finding_class

ROOT = Path(__file__).parent.parent


def rows(name):
    """The rows of all tables of a page, without their heads: lists of cells."""
    lines = (ROOT / "docs" / name).read_text("utf-8").splitlines()
    table = [line for line in lines if line.startswith("|") and not re.match(r"\|[-|]+\|$", line)]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]
    return [row for row in cells if row[0].strip("| ") != "place"]


def targets(row):
    return re.findall(r"`((?:carousel|tests/)[^`]*)`", row[-1])


def exists(target):
    if target.startswith("tests/"):
        return (ROOT / target).is_file()
    if target.startswith("carousel lab "):
        return target.removeprefix("carousel lab ") in {*LABS, "list"}
    if target.startswith("carousel "):
        with pytest.raises(SystemExit) as end:
            main([*target.split()[1:], "--help"])
        return end.value.code == 0
    parts = target.split(".")
    for k in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        for part in parts[k:]:
            found = getattr(found, part, None)
        return found is not None
    return False


@pytest.mark.parametrize("page", ["sources.md", "errata.md"])
def test_no_row_is_empty_and_every_target_exists(page, capsys):
    table = rows(page)
    assert len(table) > 40
    columns = {"sources.md": 3, "errata.md": 4}[page]
    for row in table:
        assert len(row) == columns and all(row), row
        assert targets(row), row
    missing = {target for row in table for target in targets(row) if not exists(target)}
    assert not missing


def numbered(kind, table):
    """The numbers that the first cells of a table give to equations, algorithms or figures."""
    found = set()
    for row in table:
        for part in re.findall(rf"{kind}s? ((?:\d+(?: to \d+)?(?:, | and )?)+)", row[0]):
            for first, last in re.findall(r"(\d+)(?: to (\d+))?", part):
                found |= set(range(int(first), int(last or first) + 1))
    return found


def test_every_numbered_item_is_in_the_index():
    page = (ROOT / "docs" / "sources.md").read_text("utf-8")
    titles = re.findall(r"^## (\d{3})", page, re.M)
    assert titles == ["000", "001", "002", "003", "004"]
    table = rows("sources.md")
    start = next(k for k, row in enumerate(table) if row[0] == "figure 1")
    assert numbered("equation", table[:start]) == set(range(1, 12))  # of source 000
    assert numbered("equation", table[start:]) == set(range(1, 88))  # of source 003
    assert numbered("algorithm", table) == {1, 2, 3}
    assert numbered("figure", table) == set(range(1, 34))


def tables():
    """The rows of the index by the number of the source."""
    parts = re.split(r"^## (\d{3}).*$", (ROOT / "docs" / "sources.md").read_text("utf-8"), flags=re.M)
    lines = dict(zip(parts[1::2], (part.splitlines() for part in parts[2::2]), strict=True))
    return {
        number: [[cell.strip() for cell in line.strip("|").split(" | ")] for line in each if line.startswith("| ")]
        for number, each in lines.items()
    }


def covers(row, place):
    """Whether a row of the index is of the place that a lab quotes, or of the section that it is in."""
    if not place.startswith("§"):
        return row[0].startswith(place.partition(", ")[0])
    section = re.match(r"§[\d.]*\d", place)[0]
    return any(section == one or section.startswith(f"{one}.") for one in re.findall(r"§[\d.]*\d", row[0]))


def test_what_a_lab_quotes_has_a_row():
    """Every place that a lab quotes stands in the index, with that lab."""
    index = tables()
    missing = [
        (name, claim.where)
        for name in LABS
        for claim in finding_class(name).claims
        if not any(
            covers(row, claim.where[4:]) and f"carousel lab {name}" in targets(row) for row in index[claim.where[:3]]
        )
    ]
    assert not missing


def test_the_errata_are_told_from_what_is_right():
    """The derivative by the inputs is alike where weights are equal; that by the weights only from one input."""
    table = {(row[0], row[1]): row[2] for row in rows("errata.md")}
    [said] = [right for (_, wrong), right in table.items() if wrong.startswith("the derivative with respect to x")]
    assert said.endswith("weights from different inputs differ")
    w = torch.full((3, 2), 0.4, dtype=torch.float64, requires_grad=True)
    x = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64, requires_grad=True)
    torch.sigmoid(x @ w).sum().square().backward()
    assert len(set(x.grad.tolist())) == 1  # as printed
    assert torch.equal(w.grad[:, 0], w.grad[:, 1]) and len(set(w.grad[:, 0].tolist())) == 3
    [symbols] = [place for place, wrong in table if wrong.startswith("one symbol for the immediate")]
    assert "49" not in symbols and "57" not in symbols


# ---------------------------------------------------------------- errata of sources 000 and 001 that no lab shows


def two_units():
    """Sentiment with two units, by hand. c is far above 0, so that tanh c is 1 and h is o, which is 1 after not alone;
    the first unit adds good − bad to c where h was 0, the second bad − good where it was 1."""
    layer = torch.nn.LSTM(4, 2, dtype=torch.float64)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        i, f, g, o = (slice(2 * k, 2 * k + 2) for k in range(4))
        layer.weight_hh_l0[i, 0] = torch.tensor([-200.0, 200.0])
        layer.bias_ih_l0[i] = torch.tensor([100.0, -100.0])
        layer.bias_ih_l0[f] = 100
        layer.weight_ih_l0[g, :2] = torch.tensor([[-100.0, 100.0], [100.0, -100.0]])  # bad, good
        layer.weight_ih_l0[o, 2] = 200  # not
        layer.bias_ih_l0[o] = -100
    return layer


def sentiment(words):
    """The score of a sentence: good +1, bad −1, and −2 times that after not."""
    value = {"good": 1, "bad": -1}
    pairs = zip(("", *words), words, strict=False)
    return sum(value.get(word, 0) * (-2 if before == "not" else 1) for before, word in pairs)


@pytest.mark.parametrize("length", range(1, 6))
def test_two_units_are_enough_for_sentiment(length):
    names = ("bad", "good", "not", "uh")
    every = list(itertools.product(range(4), repeat=length))
    x = torch.nn.functional.one_hot(torch.tensor(every).T, 4).double()
    state = (torch.zeros(1, len(every), 2).double(), torch.full((1, len(every), 2), 1000.0).double())
    c = two_units()(x, state)[1][1][0] - 1000
    right = [float(sentiment([names[k] for k in one])) for one in every]
    torch.testing.assert_close(c[:, 0] + 2 * c[:, 1], torch.tensor(right).double())


def test_the_flag_must_be_above_a_half():
    """g for good, with W_ig = 100 and W_hg = −200 as printed, by what h[1] is."""
    g = torch.tanh(100 - 200 * torch.tensor([0.0, 0.1, 0.45, 0.55, math.tanh(1)]))
    assert g.sign().tolist() == [1, 1, 1, -1, -1]


def test_a_vector_before_a_jacobian_is_a_diagonal_matrix():
    """The derivative of h = o(h₋) ∘ v; the product by broadcasting takes columns for rows."""
    torch.manual_seed(0)
    v, weight, h = torch.randn(3).double(), torch.randn(3, 3).double(), torch.randn(3).double()
    jacobian = torch.autograd.functional.jacobian
    inner = jacobian(lambda h: torch.sigmoid(weight @ h), h)
    outer = jacobian(lambda h: torch.sigmoid(weight @ h) * v, h)
    torch.testing.assert_close(outer, torch.diag(v) @ inner)
    assert not torch.allclose(outer, v * inner)


# ---------------------------------------------------------------- of source 002


def test_a_hadamard_product_is_no_product_of_matrices():
    a, b = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert (a * b).tolist() == [[0.0, 2.0], [3.0, 0.0]]
    assert (a @ b).tolist() == [[2.0, 1.0], [4.0, 3.0]]


def test_a_bias_acts_through_its_own_gate():
    """The chain rule for b_i, b_f and b_g, for one unit: each through its own gate; the row of W_i has z besides."""
    c_before = 0.7

    def forward(b_i, b_f, b_g, w_i):
        c = torch.sigmoid(0.2 + b_f) * c_before + torch.sigmoid(w_i * z + b_i) * torch.tanh(0.4 + b_g)
        return 0.6 * torch.tanh(c)

    z = 1.5
    given = torch.tensor([0.1, -0.5, 0.9, 0.2], dtype=torch.float64).unbind()
    by_i, by_f, by_g, by_w = torch.autograd.functional.jacobian(forward, given)
    i, f, g = torch.sigmoid(0.2 * z + given[0]), torch.sigmoid(0.2 + given[1]), torch.tanh(0.4 + given[2])
    slope = 0.6 * (1 - torch.tanh(f * c_before + i * g) ** 2)
    assert torch.isclose(by_i, slope * g * i * (1 - i)) and torch.isclose(by_w, by_i * z)
    assert torch.isclose(by_f, slope * c_before * f * (1 - f))
    assert torch.isclose(by_g, slope * i * (1 - g * g))
    assert not torch.isclose(by_g, slope * c_before * f * (1 - f))  # ∂c/∂f · ∂f/∂v_f, as printed


def test_the_derivative_of_a_concatenation_is_not_square():
    h, x = torch.randn(3), torch.randn(2)
    by_h, by_x = torch.autograd.functional.jacobian(lambda h, x: torch.cat([h, x]), (h, x))
    assert torch.equal(by_h, torch.cat([torch.eye(3), torch.zeros(2, 3)]))
    assert torch.equal(by_x, torch.cat([torch.zeros(3, 2), torch.eye(2)]))


def test_the_terms_of_requirement_2_are_counted_twice():
    """∇h as a sum of ∂h/∂i ∇i, ∂h/∂f ∇f, ∂h/∂g ∇g, ∂h/∂o ∇o and ∂h/∂c ∇c, for changes ∇ of one weight."""

    def forward(w):
        i, f, o = torch.sigmoid(w), torch.sigmoid(2 * w), torch.sigmoid(3 * w)
        g, c_before = torch.tanh(w), torch.tensor(0.7, dtype=torch.float64)
        c = f * c_before + i * g
        return i, f, g, o, c, o * torch.tanh(c)

    w = torch.tensor(0.3, dtype=torch.float64)
    i, f, g, o, c, _ = forward(w)
    d_i, d_f, d_g, d_o, d_c, d_h = torch.autograd.functional.jacobian(forward, w)
    slope = o * (1 - torch.tanh(c) ** 2)
    by_gates = slope * (g * d_i + 0.7 * d_f + i * d_g)
    assert torch.isclose(d_h, torch.tanh(c) * d_o + slope * d_c)  # once, by c
    assert torch.isclose(slope * d_c, by_gates)  # which is what the terms for i, f and g give
    assert not torch.isclose(d_h, by_gates + torch.tanh(c) * d_o + slope * d_c)  # as printed
    assert f > 0


def test_the_gates_lead_back_in_time_too():
    """∇c after two steps, for a change of the weight w of one unit: each gate has a term for h₋ and one for w."""
    scales = torch.tensor([1.0, 2.0, 3.0, 0.5], dtype=torch.float64)

    def gates(w, h):
        sums = scales * (w * 0.8 + 1.5 * h)
        return torch.cat([torch.sigmoid(sums[:3]), torch.tanh(sums[3:])])

    def run(w):
        h = c = torch.zeros((), dtype=torch.float64)
        for _ in range(2):
            i, f, o, g = gates(w, h)
            before, (c, h) = (c, h), (f * c + i * g, o * torch.tanh(f * c + i * g))
        return torch.stack([c, *before])

    w = torch.tensor(0.3, dtype=torch.float64)
    _, c_, h_ = run(w)
    d_c, d_c_, d_h_ = torch.autograd.functional.jacobian(run, w)
    by_w, by_h = torch.autograd.functional.jacobian(gates, (w, h_))
    i, f, _, g = gates(w, h_)

    def change(d_gates):
        return g * d_gates[0] + c_ * d_gates[1] + i * d_gates[3] + f * d_c_

    assert torch.isclose(d_c, change(by_w + by_h * d_h_))
    assert not torch.isclose(d_c, change(by_w), rtol=0.01)


# ---------------------------------------------------------------- of source 003


def algorithm_1(layer, x, index):
    """Algorithm 1 with a loop over `index`, "t" or, as printed, "i", where t is the number of steps throughout."""
    states = {0: torch.zeros(layer.hidden_size, dtype=x.dtype)}
    for place in range(1, len(x) + 1):
        t = place if index == "t" else len(x)
        sums = layer.weight_hh_l0 @ states[t - 1] + layer.weight_ih_l0 @ x[t - 1] + layer.bias_ih_l0 + layer.bias_hh_l0
        states[t] = torch.sigmoid(sums)
    return states


def test_the_loop_of_algorithm_1_runs_over_t():
    layer = carousel.RNN(2, 3, nonlinearity="sigmoid", dtype=torch.float64)
    x = torch.randn(4, 2, dtype=torch.float64)
    torch.testing.assert_close(algorithm_1(layer, x, "t")[4], layer(x[:, None])[0][-1, 0])
    with pytest.raises(KeyError, match="3"):  # h⁽³⁾, which no turn of the loop has made
        algorithm_1(layer, x, "i")


def closes(text):
    """Whether brackets of one kind are balanced."""
    depths = list(itertools.accumulate(1 if one == "(" else -1 for one in text))
    return not depths or (min(depths) >= 0 and depths[-1] == 0)


def test_no_finite_automaton_knows_brackets():
    """(ⁿ and (ᵐ must lead to different states, for )ⁿ closes only the first: as many states as there are n."""
    beginnings = ["(" * n for n in range(20)]
    for one, other in itertools.combinations(beginnings, 2):
        assert closes(one + ")" * len(one)) and not closes(other + ")" * len(one))


def accepts_with_choices(text):
    """A stack automaton that pushes, and at some place, which it may choose, begins to pop what it reads."""
    runs = {("push", ())}
    for one in text:
        runs |= {("pop", stack) for mode, stack in runs if mode == "push"}
        pushed = {("push", (*stack, one)) for mode, stack in runs if mode == "push"}
        popped = {("pop", stack[:-1]) for mode, stack in runs if mode == "pop" and stack and stack[-1] == one}
        runs = pushed | popped
    return any(not stack for _, stack in runs)


def test_a_stack_automaton_with_choices_knows_palindromes():
    """Of even length, over two symbols: context-free, S → a S a | b S b | ε, and not deterministic (Ginsburg and
    Greibach, 1966): the middle is not marked. That no deterministic automaton knows them is proven, not tested."""
    for length in range(9):
        for text in map("".join, itertools.product("ab", repeat=length)):
            assert accepts_with_choices(text) == (length % 2 == 0 and text == text[::-1])


def test_equations_2_to_4_and_inputs_of_any_length():
    """h⁽⁴⁾ is f of f of f of h⁽¹⁾, with the inputs that equation 1 leaves out; other lengths take no other weights."""
    layer = carousel.RNN(2, 3, nonlinearity="sigmoid", dtype=torch.float64)

    def f(h, x):
        return torch.sigmoid(layer.weight_hh_l0 @ h + layer.weight_ih_l0 @ x + layer.bias_ih_l0 + layer.bias_hh_l0)

    for length in (4, 5, 6, 7):
        x = torch.randn(length, 2, dtype=torch.float64)
        h = torch.zeros(3, dtype=torch.float64)
        for step in x:
            h = f(h, step)
        torch.testing.assert_close(layer(x[:, None])[0][-1, 0], h)


def test_layers_are_networks_one_after_the_other():
    torch.manual_seed(0)
    deep = carousel.LSTM(2, 3, num_layers=3, dtype=torch.float64)
    x = torch.randn(5, 2, 2, dtype=torch.float64)
    output = x
    for k in range(3):
        single = torch.nn.LSTM(2 if k == 0 else 3, 3, dtype=torch.float64)
        single.load_state_dict(
            {name.replace(f"_l{k}", "_l0"): p for name, p in deep.state_dict().items() if f"_l{k}" in name}
        )
        output = single(output)[0]
    torch.testing.assert_close(deep(x)[0], output)


def test_more_layers_take_more_parameters_gradients_and_activations():
    """And more computing: every weight is multiplied once in each step."""
    costs = []
    for layers in (1, 2, 4):
        layer, saved = carousel.LSTM(2, 3, num_layers=layers), []
        with torch.autograd.graph.saved_tensors_hooks(lambda x, saved=saved: saved.append(x) or x, lambda x: x):
            output = layer(torch.randn(5, 2, 2))[0]
        output.sum().backward()
        parameters = sum(p.numel() for p in layer.parameters())
        gradients = sum(p.grad.numel() for p in layer.parameters())
        assert parameters == gradients == 4 * 3 * (2 + 3 + 2) + (layers - 1) * 4 * 3 * (3 + 3 + 2)
        costs.append((parameters, sum(x.numel() for x in saved)))
    assert all(a < b for fewer, more in itertools.pairwise(costs) for a, b in zip(fewer, more, strict=True))


def test_equation_48_goes_down_to_the_first_state():
    """dh⁽⁵⁾/dw of h = tanh(w h₋ + x), by all terms with an immediate derivative; three are too few, unless the third
    has the total one."""
    x = torch.tensor([0.5, -0.3, 0.8, 0.2, 0.1], dtype=torch.float64)

    def states(w):
        h = [torch.zeros((), dtype=torch.float64)]
        for step in x:
            h.append(torch.tanh(w * h[-1] + step))
        return torch.stack(h)

    w = torch.tensor(0.9, dtype=torch.float64)
    h, total = states(w), torch.autograd.functional.jacobian(states, w)
    slope = 1 - h**2
    back = [(w * slope[p + 1 :]).prod() for p in range(6)]  # ∂h⁽⁵⁾/∂h⁽ᵖ⁾
    terms = [back[p] * slope[p] * h[p - 1] for p in range(1, 6)]
    assert torch.isclose(total[5], sum(terms))
    assert not torch.isclose(total[5], sum(terms[-3:]), rtol=0.01)
    assert torch.isclose(total[5], terms[-1] + terms[-2] + back[3] * total[3])


def test_the_brevity_penalty_takes_the_sum_of_the_lengths():
    """Two candidates of 5 and 4 words; the references that are closest in length have 6 and 5."""
    candidates = ["a b c d e", "f g h i"]
    references = [["a b c d e f", "a b"], ["f g h i j", "f g h i j k l"]]
    found = carousel.metrics.bleu(candidates, references, tokenize="none")
    assert found.length == 5 + 4 and found.reference_length == 6 + 5
    assert math.isclose(found.brevity_penalty, math.exp(1 - 11 / 9))


# ---------------------------------------------------------------- of source 004


def test_two_directions_have_shorter_paths_and_larger_gradients():
    """The derivative of the final states by each of 60 inputs: by the worst placed one, which is the first with one
    direction and one in the middle with two."""
    torch.manual_seed(0)
    x = torch.randn(60, 1, 4, dtype=torch.float64)

    def by_place(**options):
        layer = carousel.LSTM(4, 8, dtype=torch.float64, **options)
        jacobian = torch.autograd.functional.jacobian(lambda x: layer(x)[1][0].flatten(), x)
        return jacobian.square().sum(dim=(0, 2, 3)).sqrt()

    one, two = by_place(), by_place(bidirectional=True)
    assert one.argmin() == 0 and 20 <= two.argmin() < 40
    assert two.min() > 100 * one.min()
