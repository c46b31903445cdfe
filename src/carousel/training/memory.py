"""How much memory a network needs, known before it is made; what cannot fit is refused."""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from ..errors import SettingsError
from .network import Network, Trainable
from .settings import Settings

LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))  # of a container
# Numbers that an optimizer keeps for each parameter
STATES = {"sgd": 0, "adam": 2, "adamw": 2, "rmsprop": 1, "adadelta": 2}


def outline(task: type[Trainable], settings: Settings, assets: Any) -> Network | None:
    """The network on torch's meta device: shapes without memory. None if its code does not run there.

    Raises if it is larger than any machine's memory.
    """
    try:
        with torch.device("meta"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*non-meta parameter")  # of an embedder
            return task.make_network(settings, assets)
    except (OverflowError, RuntimeError, TypeError) as error:
        if "overflow" in str(error).lower():
            raise SettingsError(f"{_sizes(settings)}: no machine has the memory for such a network; {REMEDY}") from None
        return None
    except Exception:  # a task of a user's own may compute with its weights, which have no values here
        return None


REMEDY = "choose smaller sizes"


def check_memory(network: Network, training: bool) -> None:
    """Raise if the parameters of `network`, with all that training keeps for each, are more than the machine has."""
    total = machine_memory()
    s = network.settings
    weights = sum(t.numel() * t.element_size() for t in network.state_dict().values())
    trained = sum(t.numel() * t.element_size() for t in network.parameters() if t.requires_grad)
    parts = {"weights": weights}
    if training:
        states = STATES[s.optimizer] + (s.momentum > 0 and s.optimizer in ("sgd", "rmsprop"))
        parts |= {"gradients": trained, "optimizer state": states * trained, "average": trained if s.average else 0}
    needed = sum(parts.values())
    if total is None or needed <= total:
        return
    listed = ", ".join(f"{name} {gigabytes(size)}" for name, size in parts.items() if size)
    use = "training" if training else "the model"
    raise SettingsError(
        f"{_sizes(s)}: {use} takes {gigabytes(needed)} of memory ({listed}), and this machine has {gigabytes(total)}; "
        f"{REMEDY}"
    )


def machine_memory() -> int | None:
    """Bytes of memory that this process can have at most; None if the system does not say."""
    limits = []
    with suppress(ValueError, OSError, AttributeError):  # Windows has no sysconf
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for file in LIMITS:
        with suppress(ValueError, OSError):  # there is none, or it says "max"
            limits.append(int(file.read_text()))
    return min(limits) if limits else None


def gigabytes(size: int) -> str:
    """
    >>> gigabytes(25_600_000_000), gigabytes(3_000_000_000_000)
    ('25.6 GB', '3,000 GB')
    """
    return f"{size / 1e9:,.0f} GB" if size >= 1e11 else f"{size / 1e9:.1f} GB"


def _sizes(settings: Settings) -> str:
    """The settings that say how large a network is, those that are largest."""
    sizes = {
        name: getattr(settings, name)
        for name, field in type(settings).model_fields.items()
        if (field.json_schema_extra or {}).get("group") == "model" and type(getattr(settings, name)) is int  # type: ignore[union-attr]
    }
    largest = sorted(sizes, key=lambda name: -sizes[name])[:1]
    return ", ".join(f"{name} {sizes[name]}" for name in sizes if name in (*largest, "hidden", "layers"))
