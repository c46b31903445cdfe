"""A bidirectional language model as an embedder: vectors of words in their context, for the words of another task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from ...data.stores.examples import ExampleBatch
from ...networks.embedder import WordEmbedder
from ...networks.encoder import SequenceDropout
from ..bilm.network import BilmNetwork
from .context import ContextAssets
from .settings import WordSettings


class ScalarMix(nn.Module):
    """γ Σ softmax(s)ⱼ hⱼ: one vector of several, by learnt shares.

    >>> ScalarMix(2)([torch.tensor([1.0, 3.0]), torch.tensor([3.0, 5.0])]).tolist()
    [2.0, 4.0]
    """

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(layers))
        self.gamma = nn.Parameter(torch.ones(()))

    @property
    def shares(self) -> Tensor:
        """(layers,), which add up to 1."""
        return self.scores.softmax(0)

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        """layers of one shape → one of that shape."""
        return self.gamma * sum(share * layer for share, layer in zip(self.shares, layers, strict=True))

    def extra_repr(self) -> str:
        return f"{len(self.scores)} layers"


def context_embedder(settings: WordSettings, assets: ContextAssets | None) -> ContextEmbedder | None:
    """The embedder of a network, with the weights of its run if the network is a new one."""
    return None if assets is None else ContextEmbedder(settings, assets)


class ContextEmbedder(nn.Module):
    """The layers of a `bilm`, mixed. Unless `tuned`, the bilm stays as it is: no gradients, no dropout inside it."""

    def __init__(self, settings: WordSettings, assets: ContextAssets) -> None:
        super().__init__()
        s = settings
        self.assets = assets
        self.tuned = s.embedder_tuned
        bilm = BilmNetwork(assets.settings, assets.bilm)
        if assets.weights is not None:
            bilm.load_state_dict(assets.weights)
        self.bilm = bilm.requires_grad_(self.tuned)
        self.mix = ScalarMix(bilm.settings.layers + 1)
        self.drop = SequenceDropout(s.dropout if s.embedder_dropout is None else s.embedder_dropout, s.variational)
        self.size = 2 * bilm.settings.embedding
        self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        self.bilm.train(mode and self.tuned)
        return self

    def forward(self, batch: ExampleBatch | None) -> Tensor:
        """The words (T, B) of a batch in the bilm's numbers → (T, B, size); of blank texts alone, a step of zeros."""
        assert batch is not None
        with torch.set_grad_enabled(self.tuned and torch.is_grad_enabled()):
            layers = self.bilm.contexts(batch)
        if not len(batch.tokens):  # as WordEmbedder does
            return layers[0].new_zeros(1, len(batch.lengths), self.size)
        return self.drop(self.mix(layers))

    # ---------------------------------------------------------------- what is in it

    @property
    def shares(self) -> dict[str, float]:
        """How much of each layer is in the mix."""
        names = ["words", *(f"layer {k}" for k in range(1, len(self.mix.scores)))]
        return dict(zip(names, self.mix.shares.tolist(), strict=True))

    def __str__(self) -> str:
        shares = ", ".join(f"{name} {share:.3f}" for name, share in self.shares.items())
        kind = "tuned" if self.tuned else "frozen"
        return f"{shares}; γ {self.mix.gamma.item():.3f}; {kind}, {self.assets.name}"

    def show(self, page: Any) -> None:
        """Add to a report what was learnt of the mix."""
        s = self.bilm.settings
        kind = "trained with the task" if self.tuned else "left as they are"
        page.heading("Embedder").text(
            f"The bilm `{self.assets.name}` ({s.layers} {s.cell} layers in each direction, "
            f"{len(self.assets.words.words):,} words), its weights {kind}. Its layers are mixed in these shares, "
            f"and the mix is multiplied by γ = "
            f"*{self.mix.gamma.item():.3f}*."
        )
        page.table(["layer", "share"], [[name, f"{share:.3f}"] for name, share in self.shares.items()])


def read_words(embedder: WordEmbedder, context: ContextEmbedder | None, batch: ExampleBatch) -> Tensor:
    """The vectors of a batch's words, (T, B, …): the task's own and, beside them, those of `context`."""
    own = embedder(batch.tokens)
    return own if context is None else torch.cat((own, context(batch.context)), 2)
