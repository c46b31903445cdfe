"""Numbers as a page says them."""

from __future__ import annotations

from collections.abc import Iterable


def percent(value: float, digits: int = 1) -> str:
    """
    >>> percent(0.9984)
    '99.8 %'
    """
    return f"{100 * value:.{digits}f} %"


def power(value: float) -> str:
    """Two digits, or a power of ten for what is small.

    >>> power(0.214), power(2.6e-15), power(0.0)
    ('0.21', '3·10⁻¹⁵', '0')
    """
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
