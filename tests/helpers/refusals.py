"""Tables of calls that are refused, one test for each row."""

import pytest


def refuses(act, error, words):
    """`act` raises `error`, and every one of `words` is in its message."""
    with pytest.raises(error) as caught:
        act()
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, f"{missing} missing in: {caught.value}"


def rows(table):
    """One test for each row (what is done, error, words of its message)."""
    return pytest.mark.parametrize(("act", "error", "words"), table.values(), ids=table)
