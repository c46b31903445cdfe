"""Fonts for picture files: every script that some font of this machine can draw."""

from __future__ import annotations

from functools import cache
from typing import Any

FIRST = "DejaVu Sans"  # comes with matplotlib


def families(text: str) -> list[str]:
    """The font families to draw `text` with: matplotlib's own, then whichever here have what it lacks.

    >>> families("a plain word")
    ['DejaVu Sans']
    """
    names = [FIRST]
    missing = {c for c in text if not has(FIRST, c)} - set("\n\t\r")
    for name in _names() if missing else ():
        able = {c for c in missing if has(name, c)}
        if able:
            names.append(name)
            missing -= able
        if not missing:
            break
    return names


def spelled(text: str) -> str:
    """`text`, with each character that no font here can draw as its code point, instead of an empty box.

    >>> spelled("a\\u0378b")           # a code point that is no character
    'a⟨378⟩b'
    """
    return "".join(c if c in "\n\t\r" or _drawable(c) else f"⟨{ord(c):X}⟩" for c in text)


@cache
def _drawable(character: str) -> bool:
    return has(FIRST, character) or any(has(name, character) for name in _names())


def has(family: str, character: str) -> bool:
    """Whether a font family can draw a character."""
    font = _font(family)
    return font is not None and font.get_char_index(ord(character)) != 0


@cache
def _names() -> list[str]:
    """All other families here, those made for the whole of East Asia first: one of them is enough for a page."""
    from matplotlib.font_manager import fontManager

    names = sorted({entry.name for entry in fontManager.ttflist} - {FIRST, "Last Resort"})
    return sorted(names, key=lambda name: not any(word in name for word in ("CJK", "Source Han", "WenQuanYi")))


@cache
def _font(family: str) -> Any:
    from matplotlib.font_manager import FontProperties, findfont, get_font

    try:
        return get_font(findfont(FontProperties(family=family), fallback_to_default=False))
    except (OSError, RuntimeError, ValueError):  # gone, or no font matplotlib can read
        return None
