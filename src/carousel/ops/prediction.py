"""What generation asks of the kernels: the output layer for a few rows, and the choice of a token from each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .backend import load, unsupported_reason

SAMPLING = ("temperature", "top_k", "random_k", "top_p")  # by number, as in sample.hpp


class Predictor:
    """The output layer of a search, weight (V, D) and bias (V): log softmax(W h + b) of a few rows h at a time.

    The first call of more than a few rows packs W for it and all that follow, so a Predictor is for as long as the
    parameters stay as they are. No gradient flows. Where the kernels cannot run, the same comes from torch.

    >>> h, out = torch.randn(3, 8), torch.nn.Linear(8, 50)
    >>> with torch.no_grad():
    ...     torch.allclose(Predictor(out.weight, out.bias)(h), out(h).log_softmax(-1), atol=1e-5)
    True
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None):
        self.weight, self.bias = weight, bias
        self.vocab, self.size = weight.shape
        self.kind = weight.dtype
        self.native: Any = None
        given = [weight] if bias is None else [weight, bias]
        if unsupported_reason("predict", *given) is None and all(t.is_contiguous() for t in given):
            native: Any = load()[0]
            make = native.OutputLayer32 if self.kind is torch.float32 else native.OutputLayer64
            places = weight.data_ptr(), 0 if bias is None else bias.data_ptr()
            self.native = make(self.size, self.vocab, *places)

    def _runs(self, h: Tensor) -> bool:
        """Whether h, of the weight's dtype, can be given to the kernel."""
        if self.native is None or h.dtype is not self.kind or h.shape[1] != self.size or not h.is_contiguous():
            return False
        return unsupported_reason("predict", h) is None

    def __call__(self, h: Tensor) -> Tensor:
        """h (N, D) → (N, V)."""
        if not self._runs(h):
            return F.linear(h, self.weight, self.bias).log_softmax(-1)
        log_probs = h.new_empty(len(h), self.vocab)
        self.native.log_softmax(len(h), torch.get_num_threads(), h.data_ptr(), log_probs.data_ptr())
        return log_probs

    def best(self, h: Tensor, k: int, never: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
        """h (N, D) → the `k` best log-probabilities of each row and their tokens, (N, k) each, none of `never`.

        Best first, among equals the lower token; where fewer than k are left, -inf. A row with a NaN among its logits
        has nothing but NaN. The kernel never has all log-probabilities in memory.

        >>> values, tokens = Predictor(torch.eye(9), torch.arange(9.0)).best(torch.zeros(6, 9), 2, never=[8])
        >>> tokens[0].tolist()
        [7, 6]
        """
        if not self._runs(h):
            log_probs = self(h)
            log_probs[:, list(never)] = torch.where(log_probs[:, :1].isnan(), torch.nan, -torch.inf)
            values, tokens = log_probs.sort(dim=-1, descending=True, stable=True)
            return values[:, :k], tokens[:, :k]
        values, tokens = h.new_empty(len(h), k), torch.empty(len(h), k, dtype=torch.int64, device="cpu")
        places = h.data_ptr(), values.data_ptr(), tokens.data_ptr()
        self.native.topk(len(h), k, torch.get_num_threads(), np.array(never, np.int64), *places)
        return values, tokens


class Chooser:
    """A chain of samplers as one native call; `samplers` are pairs of a name in `SAMPLING` and its number.

    >>> chooser = Chooser([("temperature", 0.5), ("top_k", 2)])
    >>> tokens, values, found = chooser.choose(torch.tensor([[0.1, 0.6, 0.3]]).log(), np.array([0.7]))
    >>> tokens, found
    (array([1]), array([ True]))
    """

    def __init__(self, samplers: Sequence[tuple[str, float]]):
        self.native = load()[0]
        if self.native is not None:
            self.samplers = self.native.Samplers([(SAMPLING.index(name), float(value)) for name, value in samplers])

    def choose(self, log_probs: Tensor, uniform: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """A token for each row of (N, V), where `uniform` (N,) float64 in [0, 1) falls among the weights.

        Returns, (N,) each, the tokens, their log-probabilities, and whether there was anything to draw from; None where
        the kernel cannot run, or rows are not contiguous.
        """
        if self.native is None or not log_probs.is_contiguous():
            return None
        if unsupported_reason("choose", log_probs) is not None:
            return None
        rows, vocab = log_probs.shape
        single = log_probs.dtype is torch.float32
        tokens, found = np.empty(rows, np.int64), np.empty(rows, np.bool_)
        values = np.empty(rows, np.float32 if single else np.float64)
        run = self.native.sample32 if single else self.native.sample64
        run(self.samplers, rows, vocab, log_probs.data_ptr(), uniform, tokens, values, found, torch.get_num_threads())
        return tokens, values, found
