"""Numbers and names in messages, and tables of text."""

import pytest

from carousel.wording import (
    an,
    capitalized,
    counted,
    dashed,
    either,
    label_of,
    minutes,
    setting,
    spelling,
    text_table,
)  # fmt: skip


@pytest.mark.parametrize(
    ("number", "words", "expected"),
    [
        (0, ("text",), "0 texts"),
        (1, ("text",), "1 text"),
        (1_000_000, ("text",), "1,000,000 texts"),
        (1, ("row is", "rows are"), "1 row is"),
        (2, ("row is", "rows are"), "2 rows are"),
    ],
)
def test_what_is_counted(number, words, expected):
    assert counted(number, *words) == expected


@pytest.mark.parametrize(
    "phrase",
    ["an LSTM", "a GRU", "an RNN", "an encoder", "a tagger", "an 8", "an 11", "an 18%", "a 180", "a 1"],
)
def test_articles_follow_the_sound(phrase):
    assert an(phrase.split()[1]) == phrase


def test_the_first_letter_alone_becomes_a_capital():
    assert [capitalized(text) for text in ("", "tagger of DNA", "élan", "GRU")] == ["", "Tagger of DNA", "Élan", "GRU"]


def test_minutes_are_never_nought():
    assert [minutes(m) for m in (0.0, 0.004, 0.999, 1.0, 61.26)] == ["0.01", "0.01", "1.00", "1.0", "61.3"]


def test_names_of_results():
    names = ["bleu", "chrf", "micro_f1", "end", "accuracy", "pearson"]
    assert [label_of(name) for name in names] == ["BLEU", "chrF", "micro F1", "[END]", "accuracy", "Pearson"]


def test_tables():
    assert text_table(["run"], []) == "run"
    assert text_table(["a", "b"], [["long name", "1"], ["", "22"]]) == "a           b\nlong name   1\n           22"
    with pytest.raises(ValueError):
        text_table(["a", "b"], [["only one"]])


def test_choices_end_in_or():
    assert [either(list(choices)) for choices in ("a", "ab", "abc")] == ["a", "a or b", "a, b or c"]


def test_settings_are_spelt_as_the_user_writes_them():
    given = [("label_column",), ("target", "number"), ("shared", True), ("tied", False), ("clip", 5)]
    as_keywords = ["label_column", "target='number'", "shared=True", "tied=False", "clip=5"]
    assert [setting(*one) for one in given] == as_keywords
    with spelling(dashed):
        options = [setting(*one) for one in given]
    assert options == ["--label-column", "--target number", "--shared", "--no-tied", "--clip 5"]
    with pytest.raises(KeyError), spelling(dashed):
        raise KeyError
    assert [setting(*one) for one in given] == as_keywords  # a command leaves nothing behind
