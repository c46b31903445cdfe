"""The output layer of a language model: linear, softmax and cross-entropy in one native call.

The matrix of logits, tokens by classes, never exists: `csrc/output/cross_entropy.hpp` takes a block of tokens at a
time. Where a gradient will be asked for, it is computed along with the loss, while a block's logits are there;
`backward` then only scales it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.flop_counter import register_flop_formula

from .backend import empty_from_pool, gradients_by_reference, load, unsupported_reason, use_operator
from .kernels import Grads

REDUCTIONS = ("mean", "sum", "none")


@dataclass(frozen=True)
class How:
    """The options of a call."""

    ignore_index: int
    label_smoothing: float
    reduction: str


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    bias: Tensor | None = None,
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """`F.cross_entropy(F.linear(hidden, weight, bias), targets)` without the logits in memory.

    hidden (..., D), weight (V, D), bias (V), targets (...) int64 in 0 … V − 1. Tokens whose target is `ignore_index`
    are left out: they cost nothing, and whatever stands in their `hidden`, NaN included, reaches no loss, no gradient.
    Returns a scalar, the mean over the tokens that count (NaN if there are none, as torch has it) or their sum; with
    `reduction="none"` the loss of each token, (...), 0 where ignored: minus the log-probability of its target.

    float32 and float64 on a CPU run in the native kernel; the rest, `torch.func`, `torch.jit.trace` and autocast
    included, in torch.

    >>> hidden, weight = torch.randn(35, 20, 64, requires_grad=True), torch.randn(1000, 64, requires_grad=True)
    >>> targets = torch.randint(1000, (35, 20))
    >>> linear_cross_entropy(hidden, weight, targets, label_smoothing=0.1).backward()
    >>> weight.grad.shape
    torch.Size([1000, 64])
    """
    how = How(ignore_index, float(label_smoothing), reduction)
    _check(hidden, weight, targets, bias, how)
    reason = unsupported_reason("linear_cross_entropy", hidden, weight, bias, targets)
    if reason is not None and (not hidden.numel() or not use_operator(hidden, weight, bias, targets)):
        return _reference(hidden, weight, bias, targets, how)
    flat = hidden.reshape(-1, hidden.shape[-1]).contiguous()
    args = flat, weight.contiguous(), None if bias is None else bias.contiguous()
    wanted = [torch.is_grad_enabled() and t is not None and t.requires_grad for t in args]
    marks = targets.reshape(-1).contiguous()
    if reason is not None:
        loss = torch.ops.carousel.linear_cross_entropy(
            *args, marks, how.ignore_index, how.label_smoothing, reduction, wanted
        )[0]
    elif any(wanted):
        loss = Fused.apply(*args, marks, how)
    else:
        loss = _reduce(run(*args, marks, how)[0], marks, how)
    return loss.reshape(targets.shape) if reduction == "none" else loss


def _check(hidden: Tensor, weight: Tensor, targets: Tensor, bias: Tensor | None, how: How) -> None:
    """Complaints about arguments, as the types of exception that torch would raise."""

    def bad(kind: type[Exception], says: str) -> Exception:
        return kind(f"linear_cross_entropy: {says}")

    for name, t in (("hidden", hidden), ("weight", weight), ("targets", targets), ("bias", bias)):
        if not isinstance(t, Tensor) and not (name == "bias" and t is None):
            raise bad(TypeError, f"{name} must be a tensor, not {type(t).__name__}")
    if how.reduction not in REDUCTIONS:
        raise bad(ValueError, f"reduction={how.reduction!r}; accepted are {', '.join(map(repr, REDUCTIONS))}")
    if not 0 <= how.label_smoothing <= 1:
        raise bad(RuntimeError, f"label_smoothing={how.label_smoothing:g}; accepted is 0 to 1")
    if weight.dim() != 2 or not weight.shape[0]:
        raise bad(RuntimeError, f"weight must be (classes, features), not {_shape(weight)}")
    if hidden.dim() < 1 or hidden.shape[-1] != weight.shape[1]:
        raise bad(RuntimeError, f"hidden must be (..., {weight.shape[1]}) as weight is, not {_shape(hidden)}")
    if targets.shape != hidden.shape[:-1]:
        raise bad(ValueError, f"targets must be {_shape(hidden[..., 0])} as hidden is, not {_shape(targets)}")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise bad(RuntimeError, f"bias must be ({weight.shape[0]},) as weight is, not {_shape(bias)}")
    if targets.dtype != torch.int64:
        raise bad(RuntimeError, f"targets must be torch.int64, not {targets.dtype}")
    if not torch._C._is_any_autocast_enabled():
        for name, t in (("weight", weight), ("bias", bias)):
            if t is not None and t.dtype != hidden.dtype:
                raise bad(RuntimeError, f"{name} must be {hidden.dtype} as hidden is, not {t.dtype}")


def _shape(t: Tensor) -> str:
    return str(tuple(t.shape))


def _reference(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, how: How) -> Tensor:
    """The same in torch, logits and all; what is ignored is zeroed first, so that it reaches nothing here either."""
    hidden = hidden.masked_fill((targets == how.ignore_index).unsqueeze(-1), 0)
    logits = functional.linear(hidden, weight, bias).reshape(-1, weight.shape[0])
    loss = functional.cross_entropy(
        logits,
        targets.reshape(-1),
        ignore_index=how.ignore_index,
        label_smoothing=how.label_smoothing,
        reduction=how.reduction,
    )
    return loss.reshape(targets.shape) if how.reduction == "none" else loss


def _reduce(losses: Tensor, targets: Tensor, how: How) -> Tensor:
    if how.reduction == "none":
        return losses
    total = losses.sum()
    return total / (targets != how.ignore_index).sum() if how.reduction == "mean" else total


def run(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    how: How,
    wanted: Sequence[bool] = (False, False, False),
    scale: Tensor | None = None,
) -> tuple[Tensor, Grads]:
    """The losses (N) of hidden (N, D), and the gradients of hidden, weight and bias, those `wanted`: of the mean or
    the sum of the losses, or of their sum with the factors `scale` (N)."""
    native = load()[0]
    assert native is not None
    make = native.Output32 if hidden.dtype == torch.float32 else native.Output64
    call = make(*hidden.shape, weight.shape[0], torch.get_num_threads())
    call.hidden, call.weight, call.targets = hidden.data_ptr(), weight.data_ptr(), targets.data_ptr()
    if bias is not None:
        call.bias = bias.data_ptr()
    if scale is not None:
        call.scale = scale.data_ptr()
    call.ignore_index, call.smoothing, call.mean = how.ignore_index, how.label_smoothing, how.reduction == "mean"
    losses = hidden.new_empty(hidden.shape[0])
    call.losses = losses.data_ptr()
    found: Grads = [
        empty_from_pool(t, *t.shape) if t is not None and w else None
        for t, w in zip((hidden, weight, bias), wanted, strict=True)
    ]
    for name, g in zip(("d_hidden", "d_weight", "d_bias"), found, strict=True):
        if g is not None:
            setattr(call, name, g.data_ptr())
    call.run()
    return losses, found


def _early(reduction: str, wanted: Sequence[bool]) -> list[bool]:
    """Which gradients are computed with the loss: that of a single number is known up to a factor; with a loss for
    each token it has to wait for the factors."""
    return [reduction != "none" and w for w in wanted]


class Fused(torch.autograd.Function):
    """The call as one node of the graph."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, how: How) -> Tensor:
        losses, ctx.found = run(hidden, weight, bias, targets, how, _early(how.reduction, ctx.needs_input_grad[:3]))
        ctx.how = how
        ctx.save_for_backward(hidden, weight, bias, targets)
        return _reduce(losses, targets, how)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, targets = ctx.saved_tensors
        how, wanted = ctx.how, ctx.needs_input_grad[:3]
        seen = unsupported_reason("linear_cross_entropy_backward", grad) is not None
        if torch.is_grad_enabled() or seen:  # differentiated again, or seen by torch
            found = gradients_by_reference(
                lambda t: [_reference(*t, targets, how)],  # type: ignore[call-arg]
                (hidden, weight, bias),
                [grad],
                wanted,
            )
            return *found, None, None
        if how.reduction == "none":
            return *run(hidden, weight, bias, targets, how, wanted, grad.contiguous())[1], None, None
        # handed out once: whoever has them may do as they like with them. A second time through a kept graph is rare
        found, ctx.found = ctx.found, None
        if found is None:
            found = run(hidden, weight, bias, targets, how, wanted)[1]
        if grad.item() != 1:
            found = [None if g is None else g.mul_(grad) for g in found]
        return *found, None, None


# ------------------------------------------------------------------------------------------------ torch operators

_ARGUMENTS = (
    "Tensor hidden, Tensor weight, Tensor? bias, Tensor targets, int ignore_index, float label_smoothing, "
    "str reduction, bool[] wanted"
)
# the loss, then the gradients of hidden, weight and bias, empty where not wanted or not yet known
torch.library.define("carousel::linear_cross_entropy", f"({_ARGUMENTS}) -> (Tensor, Tensor, Tensor, Tensor)")
torch.library.define(
    "carousel::linear_cross_entropy_backward", f"({_ARGUMENTS}, Tensor grad) -> (Tensor, Tensor, Tensor)"
)


def _filled(found: Grads, like: Tensor) -> list[Tensor]:
    return [like.new_empty(0) if g is None else g for g in found]


@torch.library.impl("carousel::linear_cross_entropy", "CPU")
def _cpu(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, ignore_index: int, label_smoothing: float,
    reduction: str, wanted: list[bool],
) -> tuple[Tensor, ...]:  # fmt: skip
    how = How(ignore_index, label_smoothing, reduction)
    losses, found = run(*_whole(hidden, weight, bias, targets), how, _early(reduction, wanted))
    return _reduce(losses, targets, how), *_filled(found, hidden)


@torch.library.register_fake("carousel::linear_cross_entropy")
def _fake(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, ignore_index: int, label_smoothing: float,
    reduction: str, wanted: list[bool],
) -> tuple[Tensor, ...]:  # fmt: skip
    loss = hidden.new_empty(targets.shape if reduction == "none" else ())
    return loss, *_like((hidden, weight, bias), _early(reduction, wanted))


@torch.library.impl("carousel::linear_cross_entropy_backward", "CPU")
def _backward_cpu(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, ignore_index: int, label_smoothing: float,
    reduction: str, wanted: list[bool], grad: Tensor,
) -> tuple[Tensor, ...]:  # fmt: skip
    how = How(ignore_index, label_smoothing, reduction)
    found = run(*_whole(hidden, weight, bias, targets), how, wanted, grad.contiguous())[1]
    return tuple(_filled(found, hidden))


@torch.library.register_fake("carousel::linear_cross_entropy_backward")
def _backward_fake(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, ignore_index: int, label_smoothing: float,
    reduction: str, wanted: list[bool], grad: Tensor,
) -> tuple[Tensor, ...]:  # fmt: skip
    return tuple(_like((hidden, weight, bias), wanted))


def _whole(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    return (
        hidden.contiguous(),
        weight.contiguous(),
        None if bias is None else bias.contiguous(),
        targets.contiguous(),
    )


def _like(tensors: tuple[Tensor, Tensor, Tensor | None], wanted: Sequence[bool]) -> list[Tensor]:
    return [
        torch.empty_like(t, memory_format=torch.contiguous_format) if t is not None and w else tensors[0].new_empty(0)
        for t, w in zip(tensors, wanted, strict=True)
    ]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    hidden, weight, bias, targets, *ctx.options = inputs
    ctx.save_for_backward(hidden, weight, bias, targets, *output[1:])


def _backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Any, ...]:
    hidden, weight, bias, targets, *found = ctx.saved_tensors
    *_, reduction, wanted = ctx.options
    if reduction == "none":
        found = torch.ops.carousel.linear_cross_entropy_backward(hidden, weight, bias, targets, *ctx.options, grad)
    else:
        found = [g * grad for g in found]
    return *(g if w else None for g, w in zip(found, wanted, strict=True)), *(None for _ in range(5))


torch.library.register_autograd("carousel::linear_cross_entropy", _backward, setup_context=_keep)


@register_flop_formula(torch.ops.carousel.linear_cross_entropy)
def _flops(
    hidden: Sequence[int], weight: Sequence[int], bias: Any, targets: Any, index: Any, smoothing: Any, reduction: str,
    wanted: Sequence[bool], **_: Any,
) -> int:  # fmt: skip
    """The products, on shapes: the logits, and the gradients that are computed with the loss."""
    return 2 * hidden[0] * weight[0] * weight[1] * (1 + sum(_early(reduction, wanted[:2])))


@register_flop_formula(torch.ops.carousel.linear_cross_entropy_backward)
def _backward_flops(
    hidden: Sequence[int], weight: Sequence[int], bias: Any, targets: Any, index: Any, smoothing: Any, reduction: str,
    wanted: Sequence[bool], *_: Any, **__: Any,
) -> int:  # fmt: skip
    return 2 * hidden[0] * weight[0] * weight[1] * (1 + sum(wanted[:2]))
