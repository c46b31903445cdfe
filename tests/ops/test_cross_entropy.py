"""The output layer against torch's linear and cross_entropy in float64, and what must hold whatever the numbers."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from carousel.ops import backend
from carousel.ops import cross_entropy as output
from carousel.ops.cross_entropy import linear_cross_entropy

SIZES = [1, 2, 3, 5, 6, 7, 8, 11, 12, 13, 15, 16, 17, 23, 31, 32, 33, 47, 48, 64, 65]
CLASSES = [*SIZES, 97, 143, 144, 145, 191, 192, 193, 331, 577, 600]  # chunks of classes, one team or several
TOKENS = [*SIZES, 127, 128, 129, 255, 257, 300, 515]  # blocks of tokens
DTYPES = {torch.float32: 1e-5, torch.float64: 1e-12}
Call = tuple[Tensor, Tensor, Tensor, Tensor | None]


def case(N: int, D: int, V: int, dtype: torch.dtype = torch.float64, bias: bool = True, ignored: float = 0.2) -> Call:
    """hidden, weight, targets, bias."""
    hidden, weight = torch.randn(N, D, dtype=dtype), torch.randn(V, D, dtype=dtype)
    targets = torch.randint(V, (N,))
    targets[torch.rand(N) < ignored] = -100
    return hidden, weight, targets, torch.randn(V, dtype=dtype) if bias else None


def reference(hidden: Tensor, weight: Tensor, targets: Tensor, bias: Tensor | None = None, **options: object) -> Tensor:
    return functional.cross_entropy(functional.linear(hidden, weight, bias), targets, **options)  # type: ignore[arg-type]


def with_gradients(call: object, args: Call, dtype: torch.dtype, **options: object) -> list[Tensor]:
    """The loss, and the gradients of hidden, weight and bias, with a gradient of the loss that is not 1."""
    hidden, weight, targets, bias = args
    leaves = [t.detach().to(dtype).requires_grad_() for t in (hidden, weight, bias) if t is not None]
    loss = call(leaves[0], leaves[1], targets, *leaves[2:], **options)  # type: ignore[operator]
    seed = torch.linspace(0.5, 2, loss.numel(), dtype=torch.float64).reshape(loss.shape).to(dtype)
    return [loss.detach(), *torch.autograd.grad(loss, leaves, seed)]


def agree(found: list[Tensor], want: list[Tensor], tolerance: float, term: float = 0.0) -> None:
    """Equal in relation to the largest entry, or to the `term`s that an entry is the sum of: they may cancel."""
    for f, w in zip(found, want, strict=True):
        size = max(term, w[w.isfinite()].abs().max().item() if w.isfinite().any() else 0.0)
        torch.testing.assert_close(f.double(), w.double(), rtol=tolerance, atol=tolerance * size, equal_nan=True)


@given(
    N=st.sampled_from(TOKENS), D=st.sampled_from(SIZES), V=st.sampled_from(CLASSES),
    dtype=st.sampled_from(list(DTYPES)), bias=st.booleans(), smoothing=st.sampled_from([0.0, 0.1, 1.0]),
    reduction=st.sampled_from(output.REDUCTIONS), ignored=st.sampled_from([0.0, 0.2, 1.0]),
    threads=st.integers(1, 3), seed=st.integers(0, 9),
)  # fmt: skip
def test_equals_torch(N, D, V, dtype, bias, smoothing, reduction, ignored, threads, seed):  # type: ignore[no-untyped-def]
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    args = case(N, D, V, dtype, bias, ignored)
    options = {"label_smoothing": smoothing, "reduction": reduction}
    found = with_gradients(linear_cross_entropy, args, dtype, **options)
    assert found[0].dtype == dtype
    term = 1 / N if reduction == "mean" else 1.0  # of a gradient: a token's share times (p − 1), which is 0 if V is 1
    agree(found, with_gradients(reference, args, torch.float64, **options), DTYPES[dtype], term)


@pytest.mark.parametrize("dtype", DTYPES)
def test_equals_torch_on_the_shapes_of_language_models(dtype: torch.dtype) -> None:
    for shape in ((520, 20, 1501), (530, 130, 256)):
        hidden, weight, targets, bias = case(*shape, dtype)
        args = hidden, weight / shape[1] ** 0.5, targets, bias
        found = with_gradients(linear_cross_entropy, args, dtype)
        agree(found, with_gradients(reference, args, torch.float64), DTYPES[dtype])


def test_leading_dimensions_and_strides() -> None:
    hidden = torch.randn(6, 4, 5, dtype=torch.float64).transpose(0, 1)[..., ::2]
    weight = torch.randn(3, 7, dtype=torch.float64).T
    targets = torch.randint(7, (6, 4)).T
    found = linear_cross_entropy(hidden, weight, targets, reduction="none")
    want = reference(hidden.reshape(24, 3), weight, targets.reshape(24), reduction="none").reshape(4, 6)
    torch.testing.assert_close(found, want, rtol=1e-12, atol=1e-12)
    one = linear_cross_entropy(hidden[0, 0], weight, targets[0, 0], reduction="none")
    torch.testing.assert_close(one, want[0, 0], rtol=1e-12, atol=1e-12)


def test_only_the_gradients_that_are_wanted() -> None:
    args = case(40, 7, 230)
    want = with_gradients(reference, args, torch.float64)
    for chosen in ((0,), (1,), (2,), (0, 2)):
        tensors = [t.clone().requires_grad_(k in chosen) for k, t in enumerate((args[0], args[1], args[3]))]
        loss = linear_cross_entropy(tensors[0], tensors[1], args[2], tensors[2])
        found = torch.autograd.grad(loss, [tensors[k] for k in chosen], torch.tensor(0.5, dtype=torch.float64))
        agree(list(found), [want[1 + k] for k in chosen], 1e-12)


def test_tied_embeddings() -> None:
    embedding = torch.randn(211, 9, dtype=torch.float64, requires_grad=True)
    words, targets = torch.randint(211, (2, 30))
    (found,) = torch.autograd.grad(linear_cross_entropy(embedding[words], embedding, targets), embedding)
    (want,) = torch.autograd.grad(reference(embedding[words], embedding, targets), embedding)
    torch.testing.assert_close(found, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("reduction", output.REDUCTIONS)
def test_finite_differences(reduction: str) -> None:
    hidden, weight, _, bias = case(4, 2, 3)
    assert bias is not None
    targets = torch.tensor([2, -100, 0, 1])

    def call(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return linear_cross_entropy(hidden, weight, targets, bias, label_smoothing=0.1, reduction=reduction)

    leaves = [t.requires_grad_() for t in (hidden, weight, bias)]
    assert torch.autograd.gradcheck(call, leaves)
    assert torch.autograd.gradgradcheck(call, leaves, fast_mode=True)


def test_backward_twice_through_a_kept_graph() -> None:
    """What was handed out the first time may have been changed by whoever took it."""
    hidden, weight, targets, _ = case(30, 5, 200)
    weight.requires_grad_()
    loss = linear_cross_entropy(hidden, weight, targets)
    (first,) = torch.autograd.grad(loss, weight, retain_graph=True)
    kept = first.clone()
    first.zero_()
    (second,) = torch.autograd.grad(loss, weight)
    assert torch.equal(second, kept)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(loss, weight)


@pytest.mark.parametrize("shape", [(300, 33, 700), (300, 33, 70)])
def test_same_bits_again_and_one_thread_agrees_with_two(shape: tuple[int, int, int]) -> None:
    args = case(*shape, torch.float32)
    first = with_gradients(linear_cross_entropy, args, torch.float32)
    for _ in range(3):
        assert all(map(torch.equal, with_gradients(linear_cross_entropy, args, torch.float32), first))
    torch.set_num_threads(1)
    agree(with_gradients(linear_cross_entropy, args, torch.float32), first, 1e-5)


def test_what_is_ignored_reaches_nothing() -> None:
    args = case(150, 6, 210)
    clean = with_gradients(linear_cross_entropy, args, torch.float64)
    args[0][args[2] == -100] = float("nan")
    dirty = with_gradients(linear_cross_entropy, args, torch.float64)
    assert all(map(torch.equal, clean, dirty))
    assert not dirty[1][args[2] == -100].any()


def test_nothing_left_to_count() -> None:
    hidden, weight, targets, bias = case(20, 6, 9, ignored=1.0)
    for reduction, want in (("mean", float("nan")), ("sum", 0.0)):
        found = with_gradients(
            linear_cross_entropy, (hidden, weight, targets, bias), torch.float64, reduction=reduction
        )
        assert str(found[0].item()) == str(want)
        assert not any(g.any() for g in found[1:])
    assert linear_cross_entropy(hidden[:0], weight, targets[:0]).isnan()
    assert linear_cross_entropy(hidden[:0], weight, targets[:0], reduction="none").shape == (0,)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_pass_as_in_torch(bad: float) -> None:
    hidden, weight, targets, bias = case(20, 6, 300, ignored=0)
    hidden[3, 2] = bad
    losses = linear_cross_entropy(hidden, weight, targets, bias, reduction="none")
    want = reference(hidden, weight, targets, bias, reduction="none")
    torch.testing.assert_close(losses, want, rtol=1e-12, atol=1e-12, equal_nan=True)
    assert losses[:3].isfinite().all() and losses[4:].isfinite().all() and losses[3].isnan()
    found = with_gradients(linear_cross_entropy, (hidden, weight, targets, bias), torch.float64, reduction="none")
    agree(found, with_gradients(reference, (hidden, weight, targets, bias), torch.float64, reduction="none"), 1e-12)


def test_classes_that_are_ruled_out() -> None:
    """A bias of −∞, for all the classes of one thread and for some of the other's."""
    hidden, weight, targets, bias = case(20, 6, 300, ignored=0)
    assert bias is not None
    bias[150:] = bias[:20] = float("-inf")
    args = hidden, weight, targets.clamp(20, 149), bias
    agree(
        with_gradients(linear_cross_entropy, args, torch.float64), with_gradients(reference, args, torch.float64), 1e-12
    )
    bias[:] = float("-inf")
    assert linear_cross_entropy(*args).isnan() and reference(*args).isnan()


@pytest.mark.parametrize("dtype", DTYPES)
def test_extreme_logits(dtype: torch.dtype) -> None:
    hidden = torch.tensor([[1e4], [-1e4], [0.0], [1e-30]], dtype=dtype)
    weight = torch.linspace(-1, 1, 201, dtype=dtype).unsqueeze(1)
    args = hidden, weight, torch.tensor([0, 0, 7, 200]), None
    found = with_gradients(linear_cross_entropy, args, dtype, reduction="none")
    assert found[0][0] == 2e4 and found[0][1] == 0 and all(f.isfinite().all() for f in found)
    agree(found, with_gradients(reference, args, torch.float64, reduction="none"), DTYPES[dtype])


def test_arguments_that_are_refused() -> None:
    hidden, weight, targets, _ = case(4, 3, 10)
    targets[:] = 0
    wrong = targets.clone()
    wrong[2] = 10
    for args, options, kind, says in (
        ((hidden, weight, wrong), {}, IndexError, "targets holds 10, accepted are 0 to 9"),
        ((hidden, weight, wrong - 11), {}, IndexError, "targets holds -11"),
        ((hidden, weight, targets), {"reduction": "median"}, ValueError, "reduction='median'.*'none'"),
        ((hidden, weight, targets), {"label_smoothing": 1.5}, RuntimeError, "label_smoothing=1.5"),
        ((hidden, weight[:, :2], targets), {}, RuntimeError, r"hidden must be \(\.\.\., 2\).*\(4, 3\)"),
        ((hidden, weight[0], targets), {}, RuntimeError, r"weight must be \(classes, features\), not \(3,\)"),
        ((hidden, weight, targets[:2]), {}, ValueError, r"targets must be \(4,\).*not \(2,\)"),
        ((hidden, weight, targets, weight), {}, RuntimeError, r"bias must be \(10,\).*not \(10, 3\)"),
        ((hidden, weight.float(), targets), {}, RuntimeError, "weight must be torch.float64.*torch.float32"),
        ((hidden, weight, targets.int()), {}, RuntimeError, "targets must be torch.int64, not torch.int32"),
        ((hidden, weight, [0, 1]), {}, TypeError, "targets must be a tensor, not list"),
    ):
        with pytest.raises(kind, match=says) as error:
            linear_cross_entropy(*args, **options)
        assert str(error.value).startswith("linear_cross_entropy: ") and "\n" not in str(error.value)
        if kind is not TypeError:  # torch complains in the same way
            with pytest.raises(kind):
                reference(*args, **options)


def test_another_ignore_index() -> None:
    hidden, weight, targets, bias = case(40, 3, 10, ignored=0)
    torch.testing.assert_close(
        linear_cross_entropy(hidden, weight, targets, bias, ignore_index=4),
        reference(hidden, weight, targets, bias, ignore_index=4),
    )


def test_everything_else_goes_to_torch() -> None:
    hidden, weight, targets, bias = case(12, 5, 40)
    call = lambda h, w: linear_cross_entropy(h, w, targets, bias, label_smoothing=0.1)  # noqa: E731
    want = lambda h, w: reference(h, w, targets, bias, label_smoothing=0.1)  # noqa: E731
    for way in (torch.func.grad, torch.func.hessian):
        torch.testing.assert_close(way(call)(hidden, weight), way(want)(hidden, weight))
    at, direction = (hidden, weight), (torch.randn_like(hidden), torch.randn_like(weight))
    torch.testing.assert_close(torch.func.jvp(call, at, direction), torch.func.jvp(want, at, direction))
    many = torch.vmap(lambda h: linear_cross_entropy(h, weight, targets))(torch.stack((hidden, 2 * hidden)))
    torch.testing.assert_close(many[1], reference(2 * hidden, weight, targets))
    half = hidden.bfloat16(), weight.bfloat16(), targets
    torch.testing.assert_close(linear_cross_entropy(*half), reference(*half))
    with torch.autocast("cpu", torch.bfloat16):
        low = hidden.float(), weight.float(), targets
        torch.testing.assert_close(linear_cross_entropy(*low), reference(*low))


def test_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    args = case(12, 5, 40)
    fused = with_gradients(linear_cross_entropy, args, torch.float64)
    monkeypatch.setattr(backend, "MISSING", "no kernels")
    monkeypatch.setattr(output, "run", None)
    agree(with_gradients(linear_cross_entropy, args, torch.float64), fused, 1e-12)


@pytest.mark.parametrize(
    "reduction, wanted", [("mean", [True] * 3), ("sum", [False, True, False]), ("none", [True] * 3)]
)
def test_the_operator_is_a_good_citizen(reduction: str, wanted: list[bool]) -> None:
    hidden, weight, targets, bias = case(7, 3, 5)
    leaves = [t.requires_grad_(w) for t, w in zip((hidden, weight, bias), wanted, strict=True)]  # type: ignore[union-attr]
    options = targets, -100, 0.1, reduction, wanted
    torch.library.opcheck(torch.ops.carousel.linear_cross_entropy.default, (*leaves, *options))


def test_so_is_its_derivative() -> None:
    hidden, weight, targets, _ = case(7, 3, 5)
    args = hidden, weight, None, targets, -100, 0.0, "none", [True, True, False], torch.rand(7, dtype=torch.float64)
    torch.library.opcheck(torch.ops.carousel.linear_cross_entropy_backward.default, args)


@pytest.mark.parametrize("reduction", output.REDUCTIONS)
def test_compiles_without_a_graph_break(reduction: str) -> None:
    torch.compiler.reset()
    args = case(9, 3, 11)

    def call(hidden: Tensor, weight: Tensor, targets: Tensor, bias: Tensor) -> Tensor:
        return 3 * linear_cross_entropy(hidden.tanh(), weight, targets, bias, reduction=reduction)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    agree(with_gradients(compiled, args, torch.float64), with_gradients(call, args, torch.float64), 1e-12)
    with torch.no_grad():
        torch.testing.assert_close(compiled(*args), call(*args))  # type: ignore[arg-type]


def test_calls_from_several_python_threads() -> None:
    cases = [case(90, 13, V, torch.float32) for V in (50, 400)]
    alone = [with_gradients(linear_cross_entropy, args, torch.float32) for args in cases]
    wrong: list[str] = []

    def work(k: int) -> None:
        torch.set_num_threads(2)
        for _ in range(5):
            for args, want in zip(cases, alone, strict=True):
                if not all(map(torch.equal, with_gradients(linear_cross_entropy, args, torch.float32), want)):
                    wrong.append(f"thread {k}")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_other_python_threads_run_meanwhile() -> None:
    args = case(1500, 64, 1500, torch.float32)
    beats: list[float] = []
    done = threading.Event()

    def heart() -> None:
        while not done.is_set():
            beats.append(time.perf_counter())
            time.sleep(0.0005)

    beating = threading.Thread(target=heart)
    beating.start()
    calls = []
    for _ in range(100):  # on a busy machine a single call may leave the other thread no time
        start = time.perf_counter()
        linear_cross_entropy(*args)
        calls.append((start, time.perf_counter()))
    done.set()
    beating.join()
    assert any(sum(start < beat < end for beat in beats) > 1 for start, end in calls)


def test_the_logits_are_never_there_at_once() -> None:
    code = """
import resource, torch
from carousel.ops.cross_entropy import linear_cross_entropy
torch.set_num_threads(2)
N, D, V = 10_000, 4, 5_000
hidden, weight, targets = torch.randn(N, D), torch.randn(V, D, requires_grad=True), torch.randint(V, (N,))
def peak(n, reduction):
    linear_cross_entropy(hidden[:n], weight, targets[:n], reduction=reduction)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak(300, "mean")
print((max(peak(N, "none"), peak(N, "mean")) - before) / (4 * N * V))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert float(found.stdout) < 0.05, found.stderr  # of 200 MB


def test_a_large_gradient_comes_from_the_pool() -> None:
    """So that its pages are not new every time."""
    hidden, weight, targets, _ = case(16, 256, 1000, torch.float32)
    weight.requires_grad_()
    seen = set()
    for _ in range(6):
        linear_cross_entropy(hidden, weight, targets).backward()
        assert weight.grad is not None
        seen.add(weight.grad.data_ptr())
        weight.grad = None
    assert len(seen) <= 2
