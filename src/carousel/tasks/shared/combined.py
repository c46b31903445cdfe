"""A task, its network and its model in one class."""

from typing import Any

from ...training import Network
from ..base import Model, Task


class CombinedTask(Network, Model[Any, Any], Task):
    """A task whose declaration, assets, network and model are one class."""

    settings: Any = None  # type: ignore[assignment]
    __repr__ = Model.__repr__

    @property
    def network(self) -> Any:  # type: ignore[override]
        return self

    @classmethod
    def make_network(cls, settings: Any, assets: Any) -> Any:
        return assets

    @classmethod
    def make_model(cls, network: Any, assets: Any) -> Any:
        return network

    @classmethod
    def report(cls, model: Any, page: Any) -> None:
        model.show(page)

    def show(self, page: Any) -> None:
        pass
