"""Tree layers against a recursion that computes one node at a time, and against finite differences."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from carousel.networks.trees import ChildSumTreeLSTM, Forest, NaryTreeLSTM, RecursiveNet

KINDS = {
    "child-sum": lambda i, h, n: ChildSumTreeLSTM(i, h),
    "n-ary": NaryTreeLSTM,
    "recursive": RecursiveNet,
    "recursive sigmoid": lambda i, h, n: RecursiveNet(i, h, n, activation="sigmoid"),
}


def node_by_node(layer, x, parents, seen=None):
    """The equations as they stand in the papers, by recursion; `seen` gets gates and states by name and node."""
    seen = {} if seen is None else seen
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
            h[node] = torch.tanh(drive) if layer.activation == "tanh" else torch.sigmoid(drive)
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
        c[node] = i * u + sum((f * c[child] for f, child in zip(forgets, below, strict=True)), zero)
        h[node] = o * torch.tanh(c[node])
        for name, value in {"i": i, "o": o, "u": u, "c": c[node], "h": h[node]}.items():
            seen[name, node] = value
        for f, child in zip(forgets, below, strict=True):
            seen["f", child] = f

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
        return
    for first, one in ((0, parents[0]), (5, parents[1])):
        seen = {}
        node_by_node(layer, x[first:], one, seen)
        for (name, node), value in seen.items():
            torch.testing.assert_close({**trace.gates, **trace.states}[name][first + node], value)
    assert not trace.gates["f"][[4, 8]].any()  # of the roots
    assert repr(trace) == "TreeTrace(gates i o u f; states h c; 9×3: node, unit)"


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
