"""What generation asks of the kernels: the output layer for a few rows, and the choice of a token from each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from . import load

SAMPLING = ("temperature", "top_k", "random_k", "top_p")  # by number, as in choose.hpp


def predict(h: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    """log softmax(W h + b), (N, V), of h (N, D), weight (V, D) and bias (V). None: the kernels cannot run this.

    Nothing is kept from call to call, and no gradient flows.

    >>> h, out = torch.randn(3, 8), torch.nn.Linear(8, 50)
    >>> torch.allclose(predict(h, out.weight, out.bias), out(h).log_softmax(-1), atol=1e-5)
    True
    """
    native, kind = load()[0], h.dtype
    if native is None or kind not in (torch.float32, torch.float64):
        return None
    for t in (h, weight) if bias is None else (h, weight, bias):
        if t.dtype is not kind or not t.is_cpu or not t.is_contiguous():
            return None
    (rows, size), vocab = h.shape, weight.shape[0]
    if weight.shape[1] != size or (bias is not None and bias.shape != (vocab,)):
        return None
    log_probs = torch.empty(rows, vocab, dtype=kind)
    run = native.predict32 if kind is torch.float32 else native.predict64
    places = h.data_ptr(), weight.data_ptr(), 0 if bias is None else bias.data_ptr(), log_probs.data_ptr()
    run(rows, size, vocab, *places, torch.get_num_threads())
    return log_probs


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

    def takes(self, log_probs: Tensor) -> bool:
        """Whether the kernels can run it on these log-probabilities."""
        return (
            self.native is not None
            and log_probs.is_cpu
            and log_probs.dtype in (torch.float32, torch.float64)
            and log_probs.is_contiguous()
        )

    def choose(self, log_probs: Tensor, uniform: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A token for each row of (N, V), where `uniform` (N,) float64 in [0, 1) falls among the weights.

        Returns, (N,) each, the tokens, their log-probabilities, and whether there was anything to draw from.
        """
        assert self.native is not None
        rows, vocab = log_probs.shape
        single = log_probs.dtype is torch.float32
        tokens, found = np.empty(rows, np.int64), np.empty(rows, np.bool_)
        values = np.empty(rows, np.float32 if single else np.float64)
        run = self.native.choose32 if single else self.native.choose64
        run(self.samplers, rows, vocab, log_probs.data_ptr(), uniform, tokens, values, found, torch.get_num_threads())
        return tokens, values, found
