"""Long texts in chunks: each chunk is read by itself, and all steps of a text are pooled together.

However long texts are, no more than a group of chunks is in memory at once: in training, what a group's layers computed
is forgotten once it is pooled, and computed again when its gradient is due (gradient checkpointing).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ...masks import row_positions
from ...networks.pooling import Pooling

GROUP = 16_384  # steps, padding included, of chunks that are read together


class Chunks:
    """The chunks of a batch that has `lengths` and `spans`, text by text: at most `size` steps each, those of one text
    of equal length but for one step.

    >>> from carousel.data.stores.examples import ExampleBatch
    >>> batch = ExampleBatch(torch.tensor([[5, 9], [6, 0], [7, 0]]), torch.tensor([3, 1]), None, torch.arange(2))
    >>> chunks = Chunks(batch, 2)
    >>> chunks.owners.tolist(), chunks.lengths.tolist(), chunks.whole().tokens.T.tolist()
    ([0, 0, 1], [2, 1, 1], [[5, 6], [7, 0], [9, 0]])
    """

    def __init__(self, batch: Any, size: int) -> None:
        self.batch = batch
        count = ((batch.lengths + size - 1) // size).clamp(min=1)  # chunks of each text, (B,)
        self.owners = torch.arange(len(count), device=count.device).repeat_interleave(count)  # (C,)
        place = torch.from_numpy(row_positions(count.cpu().numpy())).to(count)
        whole, count = batch.lengths[self.owners], count[self.owners]
        self.starts = (whole * place + count - 1) // count  # (C,)
        self.lengths = (whole * (place + 1) + count - 1) // count - self.starts  # (C,)

    @property
    def needed(self) -> bool:
        """Whether a text has more than one chunk."""
        return len(self.owners) > len(self.batch.lengths)

    def whole(self) -> Any:
        """All chunks as one batch."""
        return self.batch.spans(self.owners, self.starts, self.lengths)

    def groups(self) -> Iterator[slice]:
        """Chunks of at most `GROUP` steps together, but at least one."""
        rows = max(1, GROUP // int(self.lengths.max()))
        return (slice(k, k + rows) for k in range(0, len(self.owners), rows))

    def pooled(self, encode: Callable[[Any], Tensor], pool: Pooling) -> Tensor:
        """The texts pooled, (B, F): `encode` gives the vectors of a batch, (T, C, F)."""

        def parts(group: slice, _: Tensor | None = None) -> Tensor:
            some = self.batch.spans(self.owners[group], self.starts[group], self.lengths[group])
            return pool.parts(encode(some), some.lengths)

        if torch.is_grad_enabled():
            # Reentrant: nothing of the layers is kept. This form looks for an input that has a gradient.
            trained = torch.zeros(0, requires_grad=True)
            each = [checkpoint(parts, group, trained, use_reentrant=True) for group in self.groups()]
        else:
            each = [parts(group) for group in self.groups()]
        return pool.join(torch.cat(each), self.lengths, self.owners)
