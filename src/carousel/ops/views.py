"""Parts of what a call computed, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor


class Views(Mapping[str, Tensor]):
    """Tensors by name, each a view of some columns that is made when it is asked for.

    >>> import torch
    >>> Views({"f": (torch.arange(6).reshape(2, 3), 1, 2)})["f"]
    tensor([[1, 2],
            [4, 5]])
    """

    def __init__(self, parts: Mapping[str, tuple[Tensor, int, int]]):
        self._parts = parts  # memory, first column, number of columns

    def __getitem__(self, name: str) -> Tensor:
        memory, at, width = self._parts[name]
        return memory[..., at : at + width]

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)
