"""Numbers as a page says them."""

import pytest

from carousel.lab.words import listing, mean_and_spread, percent, percent_and_spread, power, raised, text_table


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (0.001, "0.001"),
        (0.00099, "1·10⁻³"),
        (99.4, "99"),
        (99.5, "100"),
        (12345.6, "12,346"),
        (3e-84, "3·10⁻⁸⁴"),
    ],
)
def test_a_power_of_ten_for_what_is_small(value, expected):
    assert power(value) == expected


def test_shares_and_spreads():
    assert percent(0.9984) == "99.8 %" and percent(1, 0) == "100 %" and raised(-10) == "⁻¹⁰"
    assert mean_and_spread([1, 2, 6], 0) == "3 (1 to 6)"
    assert mean_and_spread([2, 2]) == "2.00" and mean_and_spread([0.999, 1.001], 1) == "1.0"  # alike as shown
    assert percent_and_spread([0, 1]) == "50 % (0 to 100)"


def test_lists_of_words():
    assert [listing(parts) for parts in (["a"], ["a", "b"], iter("abc"))] == ["a", "a and b", "a, b and c"]


def test_a_table_in_plain_text():
    text = text_table(["pattern", "wrong"], [["`(ab)*`", "*0*"], ["`a`", "12"]])
    assert text.splitlines() == ["pattern  wrong", "(ab)*        0", "a           12"]
