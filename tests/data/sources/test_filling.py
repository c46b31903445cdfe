"""Filling of missing values: what is known at an origin, against a plain walk over the rows before it."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from carousel.data.sources.filling import fill_missing


def walk(column, how):
    """The column filled, from itself alone."""
    filled = []
    for t, value in enumerate(column):
        if not math.isnan(value):
            filled.append(value)
            continue
        before = [k for k in range(t) if not math.isnan(column[k])]
        after = [k for k in range(t, len(column)) if not math.isnan(column[k])]
        if not before:
            filled.append(column[after[0]] if after else math.nan)
        elif not after or how == "forward":
            filled.append(column[before[-1]])
        else:
            a, b = before[-1], after[0]
            filled.append(((b - t) * column[a] + (t - a) * column[b]) / (b - a))
    return filled


columns = st.lists(st.one_of(st.just(math.nan), st.floats(-1e3, 1e3)), min_size=6, max_size=6)


@pytest.mark.parametrize("how", ["interpolate", "forward"])
@given(table=st.lists(columns, min_size=1, max_size=3))
def test_each_origin_sees_the_rows_before_it(how, table):
    values = np.array(table).T
    found = fill_missing(values, how)
    for origin in range(1, len(values) + 1):
        seen = found.seen(np.arange(origin)[:, None], np.array([origin]))[:, 0]
        wanted = np.array([walk(column[:origin], how) for column in table]).T
        np.testing.assert_allclose(seen, wanted, rtol=1e-12, atol=1e-9)
