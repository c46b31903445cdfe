"""Numbers as a page says them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any


def percent(value: float, digits: int = 1) -> str:
    """
    >>> percent(0.9984)
    '99.8 %'
    """
    return f"{100 * value:.{digits}f} %"


def power(value: float) -> str:
    """Two digits; a power of ten for what is small, a whole number for what is large.

    >>> power(0.214), power(2.6e-15), power(0.0), power(214.0), power(9999.0)
    ('0.21', '3·10⁻¹⁵', '0', '214', '9,999')
    """
    if value >= 99.5:
        return f"{value:,.0f}"
    if value == 0 or value >= 0.001:
        return f"{value:.2g}"
    mantissa, exponent = f"{value:.0e}".split("e")
    return f"{mantissa}·10{raised(int(exponent))}"


def raised(number: int) -> str:
    """A whole number as an exponent.

    >>> "10" + raised(-15)
    '10⁻¹⁵'
    """
    return str(number).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def listing(parts: Iterable[str]) -> str:
    """
    >>> listing(["RNN", "LSTM", "GRU"])
    'RNN, LSTM and GRU'
    """
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last


def span(values: Sequence[int]) -> str:
    """From the smallest to the largest, or one number if they are the same.

    >>> span([135, 0, 90]), span([400, 400])
    ('0 to 135', '400')
    """
    low, high = f"{min(values):,}", f"{max(values):,}"
    return low if low == high else f"{low} to {high}"


def mean_and_spread(values: Sequence[float], digits: int = 2) -> str:
    """A mean over seeds, and the smallest and largest value in brackets, unless they are the same as shown.

    >>> mean_and_spread([1.0, 2.0, 4.5]), mean_and_spread([1.001, 1.002]), mean_and_spread([-1, 2001], 0)
    ('2.50 (1.00 to 4.50)', '1.00', '1,000 (−1 to 2,001)')
    """
    return _spread(values, digits, "")


def percent_and_spread(shares: Sequence[float], digits: int = 0) -> str:
    """
    >>> percent_and_spread([0.93, 0.97])
    '95 % (93 to 97)'
    """
    return _spread([100 * share for share in shares], digits, " %")


def power_and_spread(values: Sequence[float]) -> str:
    """For values of very different sizes.

    >>> power_and_spread([0.04, 28284.0]), power_and_spread([2.0, 2.0])
    ('14,142 (0.04 to 28,284)', '2')
    """
    mean, low, high = map(power, (sum(values) / len(values), min(values), max(values)))
    return mean if low == high else f"{mean} ({low} to {high})"


def _spread(values: Sequence[float], digits: int, unit: str) -> str:
    three = (sum(values) / len(values), min(values), max(values))
    mean, low, high = (minus(f"{value:,.{digits}f}") for value in three)
    return mean + unit if low == high else f"{mean}{unit} ({low} to {high})"


def minus(number: str) -> str:
    """A number with the sign of a minus, and no sign for zero.

    >>> minus("-0.25"), minus("-0.00")
    ('−0.25', '0.00')
    """
    return number.lstrip("-") if not number.strip("-0.") else number.replace("-", "−")


def signed(value: float, digits: int = 0) -> str:
    """
    >>> signed(2.0), signed(-2, 1)
    ('+2', '−2.0')
    """
    return minus(f"{value:+.{digits}f}")


def text_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table in plain text: the first column on the left, the others on the right.

    >>> print(text_table(["cell", "accuracy"], [["LSTM", "99 %"], ["GRU", "100 %"]]))
    cell  accuracy
    LSTM      99 %
    GRU      100 %
    """
    lines = [[_plain(str(entry)) for entry in row] for row in (columns, *rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(columns))]
    return "\n".join(
        "  ".join(
            [f"{line[0]:{widths[0]}}", *(f"{c:>{w}}" for c, w in zip(line[1:], widths[1:], strict=True))]
        ).rstrip()
        for line in lines
    )


def _plain(text: str) -> str:
    """Text without the marks of emphasis and code.

    >>> _plain("*1.0*"), _plain("`ab*c*`")
    ('1.0', 'ab*c*')
    """
    parts = text.split("`")
    return "".join(part if k % 2 else re.sub(r"\*([^*]+)\*", r"\1", part) for k, part in enumerate(parts))
