"""What a word looks like, from its characters: the ends of a bidirectional layer, the best match of filters.

Each distinct word of a batch is read once, however often it occurs.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..masks import length_mask
from .embedder import Embedder
from .encoder import encoder
from .word_features import WordFeatures


class CharacterRNN(nn.Module):
    """Characters of words → the last states of both directions of a recurrent layer.

    >>> reader = CharacterRNN(30, 16, 25)
    >>> reader(torch.randint(1, 30, (7, 4)), torch.tensor([7, 3, 1, 5])).shape, reader.size
    (torch.Size([4, 50]), 50)
    """

    def __init__(
        self, characters: int, embedding: int, hidden: int, cell: str = "lstm", nonlinearity: str = "tanh"
    ) -> None:
        super().__init__()
        self.embedder = Embedder(characters, embedding, scale=(3 / embedding) ** 0.5)
        self.layer = encoder(cell, embedding, hidden, bidirectional=True, nonlinearity=nonlinearity)
        self.size = 2 * hidden

    def forward(self, characters: Tensor, lengths: Tensor) -> Tensor:
        """characters (C, W), lengths (W) → (W, size)."""
        _, state = self.layer(self.embedder(characters), lengths=lengths)
        last = state[0] if isinstance(state, tuple) else state  # (2, W, hidden)
        return last.transpose(0, 1).flatten(1)


class CharacterCNN(nn.Module):
    """Characters of words → the largest answer of each filter of `width` characters, anywhere in the word.

    >>> reader = CharacterCNN(30, 16, 50)
    >>> reader(torch.randint(1, 30, (7, 4)), torch.tensor([7, 3, 1, 5])).shape
    torch.Size([4, 50])
    """

    def __init__(self, characters: int, embedding: int, filters: int, width: int = 3) -> None:
        super().__init__()
        self.embedder = Embedder(characters, embedding, scale=(3 / embedding) ** 0.5)
        self.filters = nn.Linear(width * embedding, filters)
        self.width = width
        self.size = filters

    def forward(self, characters: Tensor, lengths: Tensor) -> Tensor:
        """characters (C, W), lengths (W) → (W, size). A word is read with zeros before and after it."""
        before = self.width // 2
        x = self.embedder(characters)  # zeros past a word's end
        x = F.pad(x, (0, 0, 0, 0, before, self.width - 1 - before))
        steps = len(characters)
        windows = torch.cat([x[k : k + steps] for k in range(self.width)], 2)  # (C, W, width · embedding)
        answers = self.filters(windows).masked_fill(~length_mask(lengths, steps).unsqueeze(2), -torch.inf)
        return F.relu(answers.amax(0))


def distinct(characters: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The distinct words among (C, W) characters of these lengths (W): theirs (C, D) and (D), and which each is, (W).

    >>> words = torch.tensor([[5, 6, 5], [7, 0, 7]])
    >>> [part.tolist() for part in distinct(words, torch.tensor([2, 1, 2]))][2]
    [0, 1, 0]
    """
    # A product of odd numbers modulo 2^64 tells words apart; should two ever meet, the slow way is taken.
    random = torch.Generator().manual_seed(0)
    factors = torch.randint(-(2**62), 2**62, (len(characters), 1), generator=random).to(characters.device) * 2 + 1
    _, which = torch.unique((characters * factors).sum(0), return_inverse=True)
    chosen = torch.empty(int(which.max()) + 1 if len(which) else 0, dtype=torch.int64, device=characters.device)
    chosen[which] = torch.arange(len(which), device=characters.device)
    columns = characters[:, chosen]
    if not torch.equal(columns[:, which], characters):
        columns, which = torch.unique(characters, dim=1, return_inverse=True)
        return columns, (columns != 0).sum(0), which
    return columns, lengths[chosen], which


class CharacterFeatures(nn.Module):
    """A vector for every word of a batch, from its characters.

    >>> shapes = CharacterFeatures(CharacterCNN(30, 16, 50))
    >>> mask = torch.tensor([[True, True], [True, False]])
    >>> shapes(torch.randint(1, 30, (7, 3)), torch.tensor([7, 7, 7]), mask).shape
    torch.Size([2, 2, 50])
    """

    def __init__(self, *readers: CharacterRNN | CharacterCNN | WordFeatures) -> None:
        """The vectors of several readers are concatenated."""
        super().__init__()
        self.readers = nn.ModuleList(readers)
        self.size = sum(reader.size for reader in readers)

    def forward(self, characters: Tensor, lengths: Tensor, mask: Tensor) -> Tensor:
        """characters (C, W), lengths (W) of the words where mask (T, B) is true → (T, B, size), 0 elsewhere."""
        words, spelling, which = distinct(characters, lengths)
        vectors = torch.cat([reader(words, spelling) for reader in self.readers], 1)
        # Which vector stands where; the last is a zero vector, for the padding.
        places = torch.full(mask.shape, len(vectors), dtype=torch.int64, device=mask.device)
        places[mask] = which
        return F.embedding(places, torch.cat((vectors, vectors.new_zeros(1, self.size))))
