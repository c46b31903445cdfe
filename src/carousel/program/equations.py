"""A program as equations, in plain text or LaTeX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .values import OPS, Value, reachable


class Equations:
    """Writes values as equations: what has a name, or is used several times, has an equation of its own."""

    def __init__(self, hoisted: Sequence[Any], latex: bool = False, forward: Mapping[str, Value] | None = None):
        self.hoisted, self.latex = hoisted, latex
        self.names: dict[int, str] = {}
        for name, value in (forward or {}).items():  # what the forward step named is known to its derivative
            while value.op in ("let", "detach") and value.serial not in self.names:
                self.names[value.serial] = name
                value = value.args[0]
            self.names[value.serial] = name

    def text(self, results: Mapping[str, Value], named: Mapping[str, Value]) -> str:
        """One line for each equation, in the order of the computation."""
        lines: list[tuple[str, str]] = []
        titled: dict[int, list[str]] = {}
        for name, value in {**named, **results}.items():
            if value.serial not in self.names:
                titled.setdefault(value.serial, []).append(name)

        def args(value: Value) -> tuple[Value, ...]:
            return () if value.serial in self.names else value.args

        values = reachable([*results.values(), *named.values()], args)
        order = [value for value in values if value.serial not in self.names]
        uses = Counter(a.serial for v in order for a in v.args)
        fresh = 0
        for value in order:
            titles = titled.get(value.serial, [])
            shared = (
                uses[value.serial] > 1 and value.args and value.op not in ("let", "detach", "splat", "neg", "product")
            )
            if not titles and not shared:
                continue
            if not titles:
                fresh += 1
                titles = [f"t{fresh}"]
            if value.op == "let" and self._is_named(value.args[0], titles[0]):
                self.names[value.serial] = titles[0]
                continue
            lines.append((titles[0], self.expression(value)[0]))
            self.names[value.serial] = titles[0]
            if value.op == "let":
                self.names.setdefault(value.args[0].serial, titles[0])
            lines += [(other, titles[0]) for other in titles[1:]]
        if not self.latex:
            return "\n".join(f"{name} = {text}" for name, text in lines)
        body = " \\\\\n".join(f"{_symbol(name)} &= {text}" for name, text in lines)
        return f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}"

    def _is_named(self, value: Value, name: str) -> bool:
        return self.names.get(value.serial) == name

    def expression(self, value: Value) -> tuple[str, int]:
        """A value and how tightly its outermost operation binds."""
        if value.op in OPS:
            op = OPS[value.op]
            parts = [self.operand(a, op.level, k) for k, a in enumerate(value.args)]
            return (op.latex if self.latex else op.text).format(*parts), op.level
        if value.op in ("let", "detach", "splat"):
            return self.reading(value.args[0])
        return self._other(value)

    def reading(self, value: Value) -> tuple[str, int]:
        """A value where it is used: by its name if it has one."""
        if value.serial in self.names:
            name = self.names[value.serial]
            return (_symbol(name) if self.latex else name), 9
        return self.expression(value)

    def operand(self, value: Value, level: int, place: int) -> str:
        text, own = self.reading(value)
        tight = own > level or (own == level and place == 0) or level == 9
        if tight or (own == level == 1 and place == 1 and value.op == "add"):
            return text
        return f"\\left({text}\\right)" if self.latex else f"({text})"

    def _other(self, value: Value) -> tuple[str, int]:
        op, name = value.op, value.attribute
        if op == "constant":
            return f"{name:g}", 9 if name >= 0 else 3
        if op == "input" and name is None:
            return "W x", 2
        if op == "input":
            return (f"W_{{{name}}} x + b_{{{name}}}" if self.latex else f"W_{name} x + b_{name}"), 1
        if op == "state":
            return (f"{_symbol(name)}_{{-}}" if self.latex else f"{name}₋"), 9
        if op in ("side", "mask", "zone"):
            title = {"side": name, "mask": "mask", "zone": f"zone_{name}"}[op]
            return (_symbol(title) if self.latex else title), 9
        if op == "gradient":
            return (f"\\partial {_symbol(name)}" if self.latex else f"∂{name}"), 9
        if op == "unit":
            return self._unit(value), 9
        if op == "product":
            return f"{self._matrix(name)} {self.operand(value.args[0], 2, 1)}", 2
        if op == "back":
            turned = "^\\top" if self.latex else "ᵀ"
            parts = [
                f"{self._matrix(p)}{turned} {self.operand(a, 2, 1)}" for a, p in zip(value.args, name, strict=True)
            ]
            return " + ".join(parts), 1 if len(parts) > 1 else 2
        inner = ", ".join(self.reading(a)[0] for a in value.args)
        if op == "slice":
            return f"{self.operand(value.args[0], 8, 0)}[{name}:{name + value.width}]", 9
        title = {"amax": "max", "cat": "cat", "sum": "Σ"}[op]
        if self.latex:
            title = {"amax": r"\max", "cat": r"\mathrm{cat}", "sum": r"\sum"}[op]
        return f"{title}({inner})", 9

    def _matrix(self, product: Any) -> str:
        label = product.label or self._hoisted(product.matrix)
        if not self.latex:
            return label
        name, _, gate = label.partition("_")
        return f"{_symbol(name)}_{{{gate}}}" if gate else _symbol(name)

    def _unit(self, value: Value) -> str:
        at, start = value.attribute
        name = self._hoisted(at)
        size = 1
        for n in self.hoisted[at].shape:
            size *= n
        if size != value.width:
            name += f"[{start}:{start + value.width}]"
        return _symbol(name) if self.latex else name

    def _hoisted(self, at: int) -> str:
        hoisted = self.hoisted[at]
        if hoisted.call is None:
            if hoisted.constant is not None and hoisted.constant.numel() == 1:
                return f"{hoisted.constant.item():g}"
            return hoisted.parameter or "constant"
        if hoisted.call[0]._schema.name in ("aten::split", "aten::split_with_sizes") and hasattr(
            hoisted.call[1][0], "at"
        ):
            return f"{self._hoisted(hoisted.call[1][0].at)}[{hoisted.call[3]}]"
        if hoisted.call[0]._schema.name == "aten::slice" and len(hoisted.call[1]) == 4:
            source, _, first, last = hoisted.call[1]
            return f"{self._hoisted(source.at)}[{first}:{last}]"
        args = [self._hoisted(a.at) if hasattr(a, "at") else str(a) for a in hoisted.call[1]]
        return f"{hoisted!r}({', '.join(args)})"


def _symbol(name: str) -> str:
    """A name in LaTeX: h, h₋, dh, d(f), \\mathit{leak}."""
    if name.endswith("₋"):
        return _symbol(name[:-1]) + "_{-}"
    if name.startswith("d(") and name.endswith(")"):
        return f"d({_symbol(name[2:-1])})"
    if len(name) == 2 and name[0] == "d":
        return name
    return name if len(name) == 1 else f"\\mathit{{{name.replace('_', chr(92) + '_')}}}"
