"""A language model as a second objective of layers over words: each direction predicts the word that it has not read.

Rei (2017), Semi-supervised multitask learning for sequence labeling.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..data.text.tokenizers import PAD, UNK
from ..ops.cross_entropy import linear_cross_entropy

MOST_WORDS = 10_000  # that are predicted; all others are [UNK], so that the cost does not grow with the vocabulary
SIZE = 64  # of what the words are predicted from


class AuxiliaryLM(nn.Module):
    """Outputs of one layer, of one direction or two, → the loss of predicting each word's neighbours.

    The forward direction predicts the word after each, the backward direction the word before; both have one output
    matrix. Whatever is read by a layer below in the other direction must not reach `y`, or the neighbours are known.

    >>> model = AuxiliaryLM(words=100, hidden=8, directions=2)
    >>> words = torch.tensor([[5, 6], [7, 0]])
    >>> model(torch.randn(2, 2, 16), words, words > 0).shape
    torch.Size([])
    """

    def __init__(self, words: int, hidden: int, directions: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.projections = nn.ModuleList(nn.Linear(hidden, SIZE) for _ in range(directions))
        self.output = nn.Linear(SIZE, min(words, MOST_WORDS))

    def forward(self, y: Tensor, words: Tensor, mask: Tensor) -> Tensor:
        """y (T, B, directions · hidden), words (T, B), which are real where mask (T, B) is true → (), a sum over words.

        Nothing is predicted beyond the ends of a sentence.
        """
        known = words.masked_fill(words >= self.output.out_features, UNK)
        targets = known.masked_fill(~mask, PAD)
        hidden, beside = [], []
        for k, projection in enumerate(self.projections):
            read, unread = (slice(None, -1), slice(1, None)) if k == 0 else (slice(1, None), slice(None, -1))
            hidden.append(projection(y[read, :, k * self.hidden : (k + 1) * self.hidden]).tanh())
            beside.append(targets[unread].masked_fill(~mask[read], PAD))  # no word after the end predicts the last
        return linear_cross_entropy(
            torch.cat(hidden, 1), self.output.weight, torch.cat(beside, 1), self.output.bias,
            ignore_index=PAD, reduction="sum",
        )  # fmt: skip
