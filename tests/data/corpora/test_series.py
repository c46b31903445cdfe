"""Series become regular CSV, divided in time."""

import numpy as np
import pytest
from helpers.corpora import lines

from carousel.data import corpora
from carousel.data.corpora.series import fill


def test_series_are_regular_and_divided_in_time(registry):
    registry.offer("series")
    source = corpora.get(corpora.find("series")).source
    weeks = ["1958-03-29,316", "1958-04-05,317.0", "1958-04-12,318.0", "1958-04-19,319", "1958-04-26,320"]
    assert lines("data/series/co2.csv") == ["week,co2", *weeks]
    assert lines("data/series/train/co2.csv") == ["week,co2", *weeks[:4]]
    assert lines("data/series/dev/co2.csv") == ["week,co2", *weeks[4:]]
    assert lines("data/series/electrical.csv") == ["month,turnover", "1995-01,66.19", "1995-12,65"]
    assert lines("data/series/elnino.csv") == ["month,temperature", "1950-01,23.110", "1951-01,24.190"]
    assert lines("data/series/macro.csv") == ["quarter,gdp,cpi", "1959Q1,2710.3,28.9", "1959Q2,2778.8,29.1"]
    assert lines("data/series/sunspots-monthly.csv")[-1] == "1750-12,11.5"
    assert source["files"]["sunspots-monthly.csv"] == 24
    assert list(source["left_out"].values()) == [3]
    assert list(source["changed"].values()) == [2]


def test_missing_values_are_on_the_line_between_their_neighbours():
    """Against NumPy's interpolation."""
    values = [4.0, None, 7.0, None, None, None, -1.0]
    rows = [(str(k), "" if value is None else str(value)) for k, value in enumerate(values)]
    full, count = fill(rows)
    known = [k for k, value in enumerate(values) if value is not None]
    line = np.interp(range(len(values)), known, [values[k] for k in known])
    assert [float(value) for _, value in full] == line.round(2).tolist()
    assert count == 4
    for ragged in ([("0", ""), ("1", "2")], [("0", "2"), ("1", "")], [("0", "")], []):
        with pytest.raises(ValueError, match="begins or ends without a value"):
            fill(ragged)
