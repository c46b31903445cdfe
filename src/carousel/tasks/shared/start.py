"""Training that begins with the weights of another run: parts are matched by name, rows by the words they are of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ...errors import RunError
from ...training import Network, Run
from ...wording import counted, setting
from ..registry import find, names

COMMON = ("embedder.", "layers.", "pool.")  # parts that mean the same in runs of different tasks
RECURRENT = ("layers.", "shapes.", "layer.")  # parts that depend on the cell


class Source(NamedTuple):
    """The run that weights are taken from."""

    task: str
    settings: Any
    weights: dict[str, Tensor]
    row_names: dict[str, tuple[Sequence[str], ...]]


def take_weights(folder: Path, task: str, network: Network, assets: Any) -> list[str]:
    """Give a new network the weights of the run in `folder`, as far as they fit; lines that say what was taken.

    A parameter is taken if it has the same name and shape. Rows that belong to words, tags or labels are taken by those
    names: what the other run does not have keeps its new weights.
    """
    source = _read(folder)
    usable = {
        _plain(name): tensor for name, tensor in source.weights.items() if _is_usable(name, source, task, network)
    }
    there = {_plain(name): rows for name, rows in source.row_names.items()}
    own = {_plain(name): rows for name, rows in network.row_names(assets).items()}
    rows: list[str] = []
    whole: list[str] = []
    left: list[str] = []
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            name = _plain(name)
            other = usable.get(name)
            if other is None:
                left.append(name)
            elif name in own and name in there and _fit(parameter, other, own[name]):
                shared = _copy_rows(parameter, other, own[name], there[name])
                line = f"{name} {shared:,} of {len(own[name][0]):,} rows"
                (rows if shared else left).append(line)
            elif parameter.shape == other.shape and name not in own:
                parameter.copy_(other)
                whole.append(name)
            else:
                left.append(f"{name} ({_shape(other)} there, {_shape(parameter)} here)")
    if not whole and not rows:
        raise RunError(
            f"{setting('start_from')}: nothing in {folder} fits; it is a run of {source.task}; "
            f"not matched: {', '.join(left)}"
        )
    return _describe(folder, rows, whole, left)


def _read(folder: Path) -> Source:
    run = Run(folder)
    name = run.config_values()["task"]
    if name not in names():
        raise RunError(f"start_from: {folder} is a run of the task {name!r}, which is not known here; import it first")
    task = find(str(name))
    settings = run.read_settings(task.Settings)
    if getattr(settings, "seeds", 1) > 1:
        raise RunError(f"start_from: {folder} is an ensemble; give one of its members, such as {run.member(1).folder}")
    assets = task.load_assets(settings, folder)
    network = task.make_network(settings, assets)
    run.load_weights(network)
    weights = {name: parameter.detach() for name, parameter in network.named_parameters()}
    return Source(str(name), settings, weights, dict(network.row_names(assets)))


def _is_usable(name: str, source: Source, task: str, network: Network) -> bool:
    """Whether a parameter of the other run means the same here, if it has the right shape."""
    cells = [getattr(settings, "cell", None) for settings in (source.settings, network.settings)]
    if cells[0] != cells[1] and name.startswith(RECURRENT):
        return False
    return source.task == task or _plain(name).startswith(COMMON)


def _plain(name: str) -> str:
    """A word's vector has one name, whichever module holds it."""
    return name.replace("embedder.embedder.", "embedder.")


def _fit(parameter: nn.Parameter, other: Tensor, names: Sequence[Sequence[str]]) -> bool:
    """Whether two parameters differ at most in the axes that have names."""
    return parameter.dim() == other.dim() and parameter.shape[len(names) :] == other.shape[len(names) :]


def _copy_rows(
    parameter: nn.Parameter, other: Tensor, here: Sequence[Sequence[str]], there: Sequence[Sequence[str]]
) -> int:
    """Copy what belongs to the same names, on each axis that has some; how many names of the first axis there are."""
    at, of = [], []
    for own, others in zip(here, there, strict=True):
        places = {name: k for k, name in enumerate(others)}
        shared = [(k, places[name]) for k, name in enumerate(own) if name in places]
        at.append(torch.tensor([k for k, _ in shared], dtype=torch.int64))
        of.append(torch.tensor([k for _, k in shared], dtype=torch.int64))
    parameter[torch.meshgrid(*at, indexing="ij")] = other[torch.meshgrid(*of, indexing="ij")]
    return len(at[0])


def _shape(tensor: Tensor) -> str:
    return " × ".join(map(str, tensor.shape))


def _describe(folder: Path, rows: list[str], whole: list[str], left: list[str]) -> list[str]:
    taken = [*rows, *([f"{counted(len(whole), 'other part')} whole"] if whole else [])]
    lines = [f"{setting('start_from')} {folder}: taken are {', '.join(taken)}"]
    if left:
        lines.append(f"{setting('start_from')} {folder}: not taken are {', '.join(left)}")
    return lines
