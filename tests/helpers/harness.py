"""A slow reference for the fused layer: the cells' own steps, one after another, in float64."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from carousel import cells
from carousel.cells.spec import Cell, Sizes, Weights
from carousel.layers.unroll import Run, Zoneout, unroll
from carousel.ops.layer import fused_layer

CELLS: dict[str, Cell] = {
    "elman-tanh": cells.Elman("tanh"),
    "elman-relu": cells.Elman("relu"),
    "elman-sigmoid": cells.Elman("sigmoid"),
    "lstm": cells.LSTM(),
    "peephole": cells.Peephole(),
    "coupled": cells.Coupled(),
    "coupled-peephole": cells.Coupled(peephole=True),
    "layernorm": cells.LayerNorm(),
    "gru": cells.GRU(),
    "gru-reset-before": cells.ResetBeforeGRU(),
}


@dataclass
class Case:
    """One call of a layer, with every option it may have."""

    cell: Cell
    T: int = 5
    B: int = 3
    I: int = 4
    H: int = 5
    P: int | None = None
    D: int = 1
    bias: bool = True
    state: bool = True
    lengths: list[int] | None = None
    reset: bool = False
    learn_initial: bool = False
    mask: bool = False
    zoneout: tuple[float, float] | None = None
    training: bool = True
    dtype: torch.dtype = torch.float64
    seed: int = 0
    made: dict[str, Any] = field(default_factory=dict)

    def make(self) -> dict[str, Any]:
        """Tensors of the call, in float64."""
        g = torch.Generator().manual_seed(self.seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=g, dtype=torch.float64)

        cell, T, B, H = self.cell, self.T, self.B, self.H
        P = self.P or H
        rows = len(cell.gates) * H
        sizes = dict(zip(cell.states, (P, H), strict=False))
        scale = 0.7 * (H + self.I) ** -0.5
        parameters = []
        for _ in range(self.D):
            p = {"weight_ih": normal(rows, self.I) * scale, "weight_hh": normal(rows, P) * scale}
            if self.bias:
                p |= {"bias_ih": normal(rows) * 0.2, "bias_hh": normal(rows) * 0.2}
            if self.P:
                p["weight_hr"] = normal(P, H) * scale
            for name, shape in cell.parameters(Sizes(self.I, H, P, self.bias)).items():
                if name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"):
                    continue
                p[name] = normal(*shape) * 0.2 + (1.0 if name.startswith("norm") and name.endswith("weight") else 0.0)
            parameters.append(p)
        directions = range(self.D)
        return {
            "x": normal(T, B, self.I),
            "parameters": parameters,
            "state": [{n: normal(B, s) * 0.5 * self.state for n, s in sizes.items()} for _ in directions],
            "initial": [{n: normal(s) * 0.5 * self.learn_initial for n, s in sizes.items()} for _ in directions],
            "mask": [(torch.rand(B, P, generator=g) < 0.7).double() / 0.7 if self.mask else None for _ in directions],
            "keep": [
                {n: torch.rand(T, B, s, generator=g) < 0.4 for n, s in sizes.items()}
                if self.zoneout and self.training
                else {}
                for _ in directions
            ],
            "reset": torch.rand(T, B, generator=g) < 0.3 if self.reset else None,
            "seeds": normal(T, B, self.D * P),
            "state_seeds": [{n: normal(B, s) for n, s in sizes.items()} for _ in directions],
        }  # fmt: skip

    def run(self, fused: bool, dtype: torch.dtype | None = None, grad: bool = True) -> dict[str, Tensor]:
        """Outputs, final states and (`grad`) every gradient, by name."""
        dtype = dtype or (self.dtype if fused else torch.float64)
        made = self.make()

        def leaf(v: Tensor) -> Tensor:
            return v.to(self.dtype).to(dtype).detach().requires_grad_(grad)

        x = leaf(made["x"])
        named = {"x": x}
        weights, states, initials = [], [], []
        for d in range(self.D):
            p = {k: leaf(v) for k, v in made["parameters"][d].items()}
            s = {k: leaf(v) for k, v in made["state"][d].items()}
            i = {k: leaf(v) for k, v in made["initial"][d].items()}
            mask = made["mask"][d]
            weights.append(Weights(self.cell, p, None if mask is None else mask.to(self.dtype).to(dtype)))
            states.append(tuple(s.values()))
            initials.append(tuple(i.values()))
            named |= {f"{k}.{d}": v for k, v in p.items()} | {f"{k}_0.{d}": v for k, v in s.items()}
            if self.reset:
                named |= {f"initial_{k}.{d}": v for k, v in i.items()}
        lengths = None if self.lengths is None else torch.tensor(self.lengths)
        rates = dict(zip(self.cell.states, self.zoneout, strict=False)) if self.zoneout else {}
        if fused:
            output, final, _ = fused_layer(
                self.cell, weights, x, states, lengths=lengths, reset=made["reset"], initial=initials, zoneout=rates,
                zone_masks=made["keep"] if self.zoneout and self.training else None,
            )  # fmt: skip
        else:
            output, final = self.reference(weights, x, states, initials, lengths, made["reset"], rates, made["keep"])
        results = {"output": output}
        seeds = [made["seeds"].to(dtype)]
        for d, state in enumerate(final):
            for n, s in zip(self.cell.states, state, strict=True):
                results[f"{n}_n.{d}"] = s
                seeds.append(made["state_seeds"][d][n].to(dtype))
        if grad:
            grads = torch.autograd.grad(list(results.values()), list(named.values()), seeds, allow_unused=True)
            zero = {n: torch.zeros_like(v) for n, v in named.items()}
            results |= {f"d_{n}": zero[n] if g is None else g for n, g in zip(named, grads, strict=True)}
        return {n: v.detach() for n, v in results.items()}

    def reference(self, weights, x, states, initials, lengths, reset, rates, keep):  # type: ignore[no-untyped-def]
        T, B, _ = x.shape
        active = None if lengths is None else torch.arange(T)[:, None] < lengths
        outputs, final = [], []
        for d, w in enumerate(weights):
            restart = None
            if reset is not None:
                cut = reset if active is None else reset & active
                restart = torch.cat((cut[1:], torch.zeros_like(cut[:1]))) if d else cut
            again = tuple(i.expand(B, -1) for i in initials[d])
            run = Run(states[d], again, d == 1, active, restart, Zoneout(rates, keep[d]) if rates else None)
            unrolled = unroll(self.cell, w, x, run)
            outputs.append(unrolled.output)
            final.append(unrolled.state)
        return torch.cat(outputs, -1), final


def compare(case: Case, tolerance: float) -> None:
    """Every result of the fused layer against the reference, relative to the largest entry (or 1)."""
    want, got = case.run(fused=False), case.run(fused=True)
    assert want.keys() == got.keys()
    for name, w in want.items():
        if not w.numel():
            continue
        error = (w - got[name].double()).abs().max().item() / max(1.0, w.abs().max().item())
        assert error <= tolerance, f"{name}: off by {error:.2e}"
    plain = case.run(fused=True, grad=False)  # the forward-only call is other code
    for name, value in plain.items():
        error = (want[name] - value.double()).abs().max().item() if value.numel() else 0.0
        assert error <= tolerance * max(1.0, want[name].abs().max().item()), f"{name}, forward only: {error:.2e}"


def layer(name: str, I: int = 3, H: int = 5, dtype: torch.dtype = torch.float64) -> Weights:
    case = Case(CELLS[name], I=I, H=H)
    return Weights(case.cell, {k: v.to(dtype) for k, v in case.make()["parameters"][0].items()})
