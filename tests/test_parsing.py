import pytest
import yaml

from carousel.parsing import DEPTH, ParseError, parse_json, parse_yaml, yaml_keys

LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + k)}: &{chr(98 + k)} [*{chr(97 + k)}, *{chr(97 + k)}]\n" for k in range(20)
)


@pytest.mark.parametrize(
    ("parse", "text", "said"),
    [
        (parse_json, "[" * 100_000, "nested more than 100 levels deep"),
        (parse_json, '{"a":' * 150 + "1" + "}" * 150, "nested more than 100 levels deep"),
        (parse_json, "9" * 5000, "a whole number has too many digits"),
        (parse_json, '["a",\n "\\ud800"]', r"\\ud800 is half a character .* at line 2, column 3"),
        (parse_json, '"\\ude00\\ud83d"', r"\\ude00 is half a character"),
        (parse_json, '{"labels": ["go', "unterminated string starting at line 1, column 13"),
        (parse_yaml, "[" * 20_000, "nested more than 100 levels deep at line 1, column 101"),
        (parse_yaml, "- " * 20_000, "nested more than 100 levels deep"),
        (parse_yaml, LAUGHS, r"\*a is an alias; write the value itself at line 2, column 8"),
        (parse_yaml, "a: &a [*a]", r"\*a is an alias"),
        (parse_yaml, "a: !!int x", "!!int is a tag; write the value without it at line 1, column 4"),
        (parse_yaml, "a: [", "expected the node content, .* at line 1, column 5"),
        (parse_yaml, "a: 1\n...\n# a note\n\nb: 2\n", "nothing may follow the line ... at line 5, column 1"),
        (parse_yaml, "a: 1\n...\n--- {b: 2}", "nothing may follow the line ... at line 3"),
        (parse_yaml, "? [1]\n: 2", "found unhashable key"),
        (parse_yaml, "a: b\0", "unacceptable character"),
        (parse_yaml, "a: '" + "x" * 10**6, "found unexpected end of stream"),
    ],
)
def test_text_that_cannot_be_read_is_one_short_line(parse, text, said):
    with pytest.raises(ParseError, match=said) as caught:
        parse(text)
    assert len(str(caught.value)) < 300 and "\n" not in str(caught.value)


def test_whole_characters_are_read():
    assert parse_json('["\\ud83d\\ude00", "\\\\ud800", "\\u00e9"]') == ["😀", "\\ud800", "é"]


def test_depth_is_counted_not_guessed():
    assert len(parse_json("[" + "[]," * 300 + "[]]")) == 301  # wide is not deep
    assert parse_json("[" * DEPTH + "]" * DEPTH)


def test_yaml_numbers_are_those_in_digits():
    text = "a: 1_000\nb: 1:30\nc: 2020-13-45\nd: -5\ne: 1.5e-05\nf: .5\ng: 017\nh: " + "9" * 5000
    values = parse_yaml(text)
    assert values.pop("h") == "9" * 5000
    assert values == {"a": "1_000", "b": "1:30", "c": "2020-13-45", "d": -5, "e": 1.5e-05, "f": 0.5, "g": "017"}


@pytest.mark.parametrize("value", [0, -3, 10**12, 0.5, 1e-05, float("inf"), True, None, "1_000", "1e-3", "yes", "017"])
def test_what_is_dumped_is_read_again(value):
    assert parse_yaml(yaml.safe_dump(value)) == value


def test_notes_may_follow_the_end():
    assert parse_yaml("a: x ...\n... \n\n # a note\n...\n") == {"a": "x ..."}


def test_keys_have_lines():
    assert yaml_keys("# settings\na: 1\n\nb: [1]\na: 2") == [("a", 2), ("b", 4), ("a", 5)]
