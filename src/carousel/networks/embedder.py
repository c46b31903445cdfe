"""Tokens to vectors."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..data.text.tokenizers import PAD, UNK
from ..data.text.vectors import Vectors, WordVectors
from ..layers import Recurrent
from ..layers.standard import find_cell
from ..ops.embedding import embedding
from .encoder import SequenceDropout


class Embedder(nn.Module):
    """A vector for each token; `[PAD]` is the zero vector. `dropout` hides whole tokens of the vocabulary from a batch.

    >>> Embedder(10, 4)(torch.tensor([[1, 2, 0]])).shape
    torch.Size([1, 3, 4])
    """

    def __init__(self, tokens: int, size: int, dropout: float = 0.0, scale: float = 0.1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(tokens, size))
        self.dropout = dropout
        nn.init.uniform_(self.weight, -scale, scale)
        with torch.no_grad():
            self.weight[0] = 0

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens (...) → (..., size)."""
        vectors = embedding(tokens, self.weight)
        if self.training and self.dropout:
            kept = F.dropout(self.weight.new_ones(len(self.weight), 1), self.dropout)
            vectors = vectors * F.embedding(tokens, kept)
        return vectors

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, {self.weight.shape[1]}, dropout={self.dropout}"


def input_rows(cell: str, hidden_size: int) -> int:
    """How many numbers W x has: rows of `weight_ih`, G·H.

    >>> input_rows("lstm", 5)
    20
    """
    return len(find_cell(cell).gates) * hidden_size


@torch.no_grad()
def read_columns(layer: Recurrent, embedder: Embedder) -> None:
    """Let a layer in one direction, of input size G·H, read one-hot vectors through `embedder` (V, G·H).

    The product of W (G·H, V) with a one-hot vector is a column of W. The embedder holds these columns, as its rows, and
    the layer's own input weights are the identity, which is not trained: W x is looked up, and never multiplied.
    """
    bound = layer.hidden_size**-0.5  # as a layer's weights begin
    nn.init.uniform_(embedder.weight, -bound, bound)
    embedder.weight[PAD] = 0
    weight = layer.get_parameter("weight_ih_l0")
    nn.init.eye_(weight)
    weight.requires_grad_(False)


class WordEmbedder(nn.Module):
    """A vector for each word. In training, a share `word_dropout` of the words is read as `[UNK]`, then dropout.

    >>> WordEmbedder(10, 4)(torch.tensor([[1, 2, 0]])).shape
    torch.Size([1, 3, 4])
    """

    def __init__(
        self,
        words: int,
        size: int,
        *,
        word_dropout: float = 0.0,
        dropout: float = 0.0,
        variational: bool = True,
        frozen: bool = False,
        beyond: WordVectors | None = None,
    ) -> None:
        """`beyond` has the vectors of the ids from `words` on, which are fetched as they occur and not trained."""
        super().__init__()
        self.embedder = Embedder(words, size)
        self.beyond = beyond
        self.embedder.weight.requires_grad_(not frozen)
        self.word_dropout = word_dropout
        self.drop = SequenceDropout(dropout, variational)

    @torch.no_grad()
    def set_vectors(self, vectors: Vectors) -> None:
        """Begin with these vectors, (V, size); words that have none keep their own, scaled to be as long."""
        given, known = torch.from_numpy(vectors.values), torch.from_numpy(vectors.known)
        weight = self.embedder.weight
        weight.mul_(given[known].std().nan_to_num(1) / weight[UNK:].std())
        weight[known] = given[known]

    def forward(self, words: Tensor) -> Tensor:
        """words (T, B) → (T, B, size); of blank texts alone, (0, B), a step of `[PAD]`, since layers want one."""
        if not len(words):
            words = words.new_full((1, words.shape[1]), PAD)
        if self.training and self.word_dropout:
            hidden = (torch.rand(words.shape, device=words.device) < self.word_dropout) & (words >= UNK)
            words = words.masked_fill(hidden, UNK)
        return self.drop(self._vectors(words))

    def _vectors(self, words: Tensor) -> Tensor:
        outside = None if self.beyond is None else words >= len(self.embedder.weight)
        if self.beyond is None or outside is None or not outside.any():
            return self.embedder(words)
        vectors = self.embedder(words.masked_fill(outside, UNK))
        rows = (words[outside] - len(self.embedder.weight)).cpu().numpy()
        return vectors.masked_scatter(outside.unsqueeze(-1), torch.from_numpy(self.beyond.values[rows]).to(vectors))

    def extra_repr(self) -> str:
        return f"word_dropout={self.word_dropout}"
