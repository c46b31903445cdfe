"""Forms of verse: their lines, marks and names."""

import pytest

from carousel.decoding import Pattern


def test_simplified_names_and_near_misses():
    assert Pattern.named("五言律诗") == Pattern.named("五言律詩") == Pattern(8, 5)
    with pytest.raises(ValueError, match=r"no form is named '六言律詩', only 五言絕句.*; did you mean 五言律詩\?"):
        Pattern.named("六言律詩")


def test_places_and_line_ends_by_hand():
    pattern = Pattern(3, (2, 1, 2), ("，", "。？"))
    assert pattern.layout() == "○○，○。？○○，"  # the marks repeat
    assert pattern.places() == [
        (0, None), (0, None), (0, "，"), (1, None), (1, "。"), (1, "？"), (2, None), (2, None), (2, "，"),
    ]  # fmt: skip
    assert pattern.line_ends() == [1, 3, 7]
    assert len(pattern) == 9
    assert Pattern(1, 1, ("",)).layout() == "○"


@pytest.mark.parametrize(("name", "lines", "length"), [("五言絕句", 4, 5), ("七言律詩", 8, 7)])
def test_regulated_verse_is_couplets(name, lines, length):
    assert Pattern.named(name).layout() == ("○" * length + "，" + "○" * length + "。") * (lines // 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 5), "lines must be at least 1, got 0"),
        ((2, 0), "length must be a number above 0, or one for each of the 2 lines, got 0"),
        ((2, (5,)), r"one for each of the 2 lines, got \(5,\)"),
        ((2, (5, 0)), "length must be a number above 0"),
        ((2, 5, ()), "punctuation is empty"),
    ],
)
def test_what_is_no_form(arguments, message):
    with pytest.raises(ValueError, match=message):
        Pattern(*arguments)
