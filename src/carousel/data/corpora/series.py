"""Time series in the public domain, as CSV: the time, then one column per variable."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import pairwise

from .corpus import Conversion, Corpus, File, Release
from .packages import Package

FOLDER = "statsmodels/datasets"
PATHS = {
    "co2": "co2/co2.csv",
    "electrical": "elec_equip/elec_equip.csv",
    "elnino": "elnino/elnino.csv",
    "macro": "macrodata/macrodata.csv",
    "nile": "nile/nile.csv",
    "sunspots-monthly": "sunspots/src/sunspots_monthly.dat",
    "sunspots-yearly": "sunspots/sunspots.csv",
}
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

Row = Sequence[str]


def convert(package: Package) -> Conversion:
    """Each series whole, and divided in time into train and dev."""
    texts = package.read(*(f"{FOLDER}/{path}" for path in PATHS.values()), "statsmodels-*.dist-info/*LICENSE*")
    text = {name: texts.pop(f"{FOLDER}/{path}") for name, path in PATHS.items()}
    weeks, filled = fill(_rows(text["co2"]))
    months, preliminary = _sunspots(text["sunspots-monthly"])
    macro = list(csv.DictReader(text["macro"].splitlines()))
    variables = [name for name in macro[0] if name not in ("year", "quarter")]
    tables: dict[str, tuple[Row, list[Row]]] = {
        "co2": (("week", "co2"), [(f"{day[:4]}-{day[4:6]}-{day[6:]}", value) for day, value in weeks]),
        "electrical": (("month", "turnover"), [(_month(date), value) for date, value in _rows(text["electrical"])]),
        "elnino": (("month", "temperature"), [row for year in _rows(text["elnino"]) for row in _year(year)]),
        "macro": (
            ("quarter", *variables),
            [(f"{row['year']}Q{row['quarter']}", *(row[name] for name in variables)) for row in macro],
        ),
        "nile": (("year", "volume"), _rows(text["nile"])),
        "sunspots-monthly": (("month", "sunspots"), months),
        "sunspots-yearly": (("year", "sunspots"), _rows(text["sunspots-yearly"])),
    }
    files = {}
    for name, (header, rows) in tables.items():
        cut = len(rows) * 4 // 5
        files[f"{name}.csv"] = _file(header, rows)
        files[f"train/{name}.csv"] = _file(header, rows[:cut])
        files[f"dev/{name}.csv"] = _file(header, rows[cut:])
    return Conversion(
        files,
        licence="\n".join(texts.values()),
        left_out={"preliminary months of sunspots-monthly, in a year that is not complete": preliminary},
        changed={"weeks of co2 without a value, now on the line between their neighbours": filled},
    )


def fill(rows: Sequence[Row]) -> tuple[list[Row], int]:
    """`rows` of (time, value) with missing values put on the line between their neighbours, and how many that were.

    >>> from carousel.data.corpora.series import fill
    >>> fill([("a", "1"), ("b", ""), ("c", ""), ("d", "2.5")])
    ([('a', '1'), ('b', '1.5'), ('c', '2.0'), ('d', '2.5')], 2)
    """
    known = [at for at, (_, value) in enumerate(rows) if value]
    if not known or known[0] > 0 or known[-1] < len(rows) - 1:
        raise ValueError("a series begins or ends without a value")
    full = list(rows)
    for left, right in pairwise(known):
        low, high = float(rows[left][1]), float(rows[right][1])
        for at in range(left + 1, right):
            value = low + (high - low) * (at - left) / (right - left)
            full[at] = (rows[at][0], str(round(value, 2)))
    return full, len(rows) - len(known)


def _sunspots(text: str) -> tuple[list[Row], int]:
    """The months of a printed table, a year a line; a year that is not complete is left out, and its months counted."""
    rows: list[Row] = []
    rest = 0
    for line in text.splitlines():
        fields = line.split()
        if fields and fields[0].isdigit():
            if len(fields) == 13:
                rows += _year(fields)
            else:
                rest += len(fields) - 1
    return rows, rest


def _year(fields: Row) -> list[Row]:
    year, *values = fields
    return [(f"{year}-{month:02}", value) for month, value in enumerate(values, 1)]


def _month(date: str) -> str:
    """`Jan-1-1995` as `1995-01`; not by strptime, to which Jan means something in some languages only."""
    month, _, year = date.split("-")
    return f"{year}-{MONTHS.index(month) + 1:02}"


def _rows(text: str) -> list[Row]:
    """The rows of a CSV below its header; they must all be as wide as it."""
    header, *rows = csv.reader(text.splitlines())
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"a row does not have the columns {', '.join(header)}")
    return [tuple(field.strip() for field in row) for row in rows]


def _file(header: Row, rows: Sequence[Row]) -> File:
    return File("".join(",".join(row) + "\n" for row in (header, *rows)), len(rows))


SERIES = Corpus(
    name="series",
    title="Time series: sunspots, CO2, El Niño, the Nile, electrical equipment, US economy",
    release=Release(
        "PyPI",
        "statsmodels",
        "0.15.0",
        megabytes=12,
        licence="public domain, as the package states for each of them; the package itself is BSD 3-Clause",
    ),
    unit="rows",
    done="CSV with a header: the time (1958-03-29, 1749-01, 1959Q1 or 1700), then one column per variable. Each series "
    "is there whole, and divided in time: the first eight tenths in train/, the rest in dev/.",
    command="carousel train forecast {out}/train/sunspots-monthly.csv --dev {out}/dev/sunspots-monthly.csv --out run",
    convert=convert,
)
