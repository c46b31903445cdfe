"""Tree layers against a recursion that computes one node at a time, and against finite differences."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

import carousel
from carousel.networks.trees import ChildSumTreeLSTM, Forest, NaryTreeLSTM, RecursiveNet

KINDS = {
    "child-sum": lambda i, h, n: ChildSumTreeLSTM(i, h),
    "n-ary": NaryTreeLSTM,
    "recursive": RecursiveNet,
    "recursive sigmoid": lambda i, h, n: RecursiveNet(i, h, n, activation="sigmoid"),
}


def node_by_node(layer, x, parents, seen=None, change=lambda name, node, value: value):
    """The equations as they stand in the papers, by recursion; `seen` gets gates and states by name and node, after
    `change` has had them."""
    seen = {} if seen is None else seen

    def let(name, node, value):
        seen[name, node] = changed = change(name, node, value)
        return changed

    H = layer.hidden_size
    children = [[] for _ in parents]
    for k, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(k)
    h, c = {}, {}

    def visit(node):
        for child in children[node]:
            visit(child)
        below = children[node]
        drive = layer.weight @ x[node] + layer.bias
        zero = x.new_zeros(H)
        if isinstance(layer, RecursiveNet):
            for k, child in enumerate(below):
                drive = drive + layer.weight_children[:, k * H : (k + 1) * H] @ h[child]
            h[node] = let("h", node, torch.tanh(drive) if layer.activation == "tanh" else torch.sigmoid(drive))
            return
        xi, xo, xu, xf = drive.split(H)
        if isinstance(layer, ChildSumTreeLSTM):
            total = sum((h[child] for child in below), zero)
            ui, uo, uu = (layer.weight_sum @ total).split(H)
            forgets = [torch.sigmoid(xf + layer.weight_each @ h[child]) for child in below]
        else:
            U = layer.weight_children.view(3 + layer.most, H, layer.most, H)
            ui, uo, uu = (sum((U[g, :, k] @ h[child] for k, child in enumerate(below)), zero) for g in range(3))
            forgets = [
                torch.sigmoid(xf + sum(U[3 + k, :, j] @ h[other] for j, other in enumerate(below)))
                for k in range(len(below))
            ]
        i, o, u = torch.sigmoid(xi + ui), torch.sigmoid(xo + uo), torch.tanh(xu + uu)
        i, o, u = let("i", node, i), let("o", node, o), let("u", node, u)
        forgets = [let("f", child, f) for f, child in zip(forgets, below, strict=True)]
        c[node] = let("c", node, i * u + sum((f * c[child] for f, child in zip(forgets, below, strict=True)), zero))
        h[node] = let("h", node, o * torch.tanh(c[node]))

    visit(len(parents) - 1)
    return torch.stack([h[k] for k in range(len(parents))])


@pytest.mark.parametrize("kind", KINDS)
def test_a_trace_has_every_gate_and_state(kind):
    """Two trees, one with an inner node of one child, so that places among the children stay empty."""
    parents = [[2, 2, 4, 4, -1], [1, 3, 3, -1]]
    layer, x = KINDS[kind](4, 3, 3).double(), torch.randn(9, 4, dtype=torch.float64)
    trace = layer.trace(x, Forest.of(parents))
    assert torch.equal(trace.states["h"], layer(x, Forest.of(parents)))
    if kind.startswith("recursive"):
        assert not trace.gates and list(trace.states) == ["h"]
    for first, one in ((0, parents[0]), (5, parents[1])):
        seen = {}
        node_by_node(layer, x[first:], one, seen)
        for (name, node), value in seen.items():
            torch.testing.assert_close({**trace.gates, **trace.states}[name][first + node], value)
    if trace.gates:
        assert not trace.gates["f"][[4, 8]].any()  # of the roots
        assert repr(trace) == "TreeTrace(gates i o u f; states h c; 9×3: node, unit)"


@pytest.mark.parametrize("name", "ioufch")
@pytest.mark.parametrize("kind", KINDS)
def test_an_intervention_changes_the_nodes_above(kind, name):
    """Two nodes of the second tree are held, at one unit; the first tree is as it was."""
    parents = [[2, 2, 4, 4, -1], [1, 3, 3, -1]]
    layer, x, forest = KINDS[kind](4, 3, 3).double(), torch.randn(9, 4, dtype=torch.float64), Forest.of(parents)
    if name not in (*layer.cell.gates, *layer.cell.states):
        return
    value = torch.tensor([0.3, -0.7], dtype=torch.float64).view(2, 1, 1)
    trace = layer.intervene(x, forest, carousel.Clamp(name, value, steps=[0, 2], units=1, sequences=1))

    def change(what, node, given):
        held = given.clone()
        if what == name and node in (0, 2):
            held[1] = 0.3 if node == 0 else -0.7
        return held

    values = {**trace.gates, **trace.states}
    for first, one, changed in ((0, parents[0], lambda name, node, given: given), (5, parents[1], change)):
        seen = {}
        node_by_node(layer, x[first:], one, seen, changed)
        for (what, node), expected in seen.items():
            torch.testing.assert_close(values[what][first + node], expected)
    assert not torch.allclose(trace.states["h"][8], layer(x, forest)[8])


def test_a_clamp_that_means_nothing_is_refused():
    layer, x, forest = NaryTreeLSTM(4, 3), torch.randn(3, 4), Forest.of([[2, 2, -1]])
    for clamp, wrong in (
        (carousel.Clamp("g", 0.0), "NaryTreeLSTM has no gate or state 'g'; it has \\('h', 'c', 'i', 'o', 'u', 'f'\\)"),
        (carousel.Clamp("f", 0.0, steps=3), "steps=3 is out of range 0..2"),
        (carousel.Clamp("f", 0.0, sequences=1), "sequences=1 is out of range 0..0"),
        (carousel.Clamp("f", 0.0, direction=1), "direction=1 is out of range"),
    ):
        with pytest.raises(ValueError, match=wrong):
            layer.intervene(x, forest, clamp)
    with pytest.raises(TypeError, match="intervene takes carousel\\.Clamp objects after the trees, got str"):
        layer.intervene(x, forest, "f")


@st.composite
def trees(draw, most=3):
    """Parents in post-order: subtrees wait on a stack until a node takes some of them."""
    parents, waiting = [], []
    for _ in range(draw(st.integers(1, 12))):
        take = draw(st.integers(0, min(most, len(waiting))))
        for child in waiting[len(waiting) - take :]:
            parents[child] = len(parents)
        waiting = [*waiting[: len(waiting) - take], len(parents)]
        parents.append(-1)
    while len(waiting) > 1:
        take = min(most, len(waiting))
        for child in waiting[-take:]:
            parents[child] = len(parents)
        waiting = [*waiting[:-take], len(parents)]
        parents.append(-1)
    return parents


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(forest=st.lists(trees(), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_a_batch_equals_the_recursion(kind, forest, seed):
    torch.manual_seed(seed)
    layer = KINDS[kind](3, 4, 3).double()
    x = torch.randn(sum(map(len, forest)), 3, dtype=torch.float64, requires_grad=True)
    got = layer(x, Forest.of(forest))
    parts = x.split([len(one) for one in forest])
    want = torch.cat([node_by_node(layer, part, one) for part, one in zip(parts, forest, strict=True)])
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
    weights = [x, *layer.parameters()]
    seed_grad = torch.randn_like(want)
    ours = torch.autograd.grad(got, weights, seed_grad)
    theirs = torch.autograd.grad(want, weights, seed_grad, allow_unused=True)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, torch.zeros_like(a) if b is None else b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_by_finite_differences(kind):
    torch.manual_seed(0)
    layer = KINDS[kind](2, 3, 3).double()
    forest = Forest.of([[2, 2, 5, 5, 5, -1], [-1], [1, 2, -1]])
    x = torch.randn(forest.nodes, 2, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in layer.named_parameters()]

    def run(x, *weights):
        return torch.func.functional_call(layer, dict(zip(names, weights, strict=True)), (x, forest))

    assert torch.autograd.gradcheck(run, (x, *layer.parameters()))


@pytest.mark.slow
def test_a_tree_of_twenty_thousand_levels_needs_no_stack():
    deep = [*range(1, 20_000), -1]
    layer = ChildSumTreeLSTM(1, 2)
    h = layer(torch.ones(len(deep), 1), Forest.of([deep]))
    h[-1].sum().backward()
    assert torch.isfinite(h).all() and torch.isfinite(layer.weight.grad).all()


def test_the_roots_are_found():
    forest = Forest.of([[2, 2, -1], [-1], [1, -1]])
    rows = torch.arange(6.0).unsqueeze(1)
    assert ChildSumTreeLSTM(1, 1).roots(rows, forest).flatten().tolist() == [2, 3, 5]


def test_too_many_children_are_refused():
    forest = Forest.of([[3, 3, 3, -1]])
    with pytest.raises(ValueError, match="3 children, and the layer takes at most 2"):
        NaryTreeLSTM(1, 1)(torch.zeros(4, 1), forest)
    with pytest.raises(ValueError, match=r"shape \(4, 1\)"):
        ChildSumTreeLSTM(1, 1)(torch.zeros(3, 1), forest)
    with pytest.raises(ValueError, match="a parent comes after its children"):
        Forest.of([[-1, 0]])
