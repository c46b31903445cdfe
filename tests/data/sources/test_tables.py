"""Tables: what is read, and the one line that is said of every kind of bad file."""

import csv
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carousel.data.sources.tables import PairTable, Table
from carousel.errors import DataError
from carousel.tasks.classify.settings import ClassifySettings
from carousel.tasks.classify.targets import Target


@pytest.fixture
def table(text_file):
    def make(content, name="t.tsv", /, **columns):
        return Table(text_file(content, name), **columns)

    return make


def pairs(table):
    return [(row.text, row.label) for row in table]


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("t.tsv", "fine\tgood\ndull\tbad\n", {}),
        ("t.tsv", "fine\tgood\r\ndull\tbad", {}),
        ("t.tsv", "text\tlabel\nfine\tgood\ndull\tbad\n", {}),
        ("t.tsv", "Label\tSentence\ngood\tfine\nbad\tdull\n", {}),
        ("t.tsv", "good\tfine\nbad\tdull\n", {"text": "2", "label": "1"}),
        ("t.tsv", "id\tstars\twords\n7\tgood\tfine\n8\tbad\tdull\n", {"text": "words", "label": "stars"}),
        ("t.tsv", "7\tgood\tfine\n8\tbad\tdull\n", {"text": "3", "label": "2"}),
        ("t.csv", "fine,good\ndull,bad\n", {}),
        ("t.csv", "fine;good\ndull;bad\n", {}),
        ("t.csv", '"fine","good"\n\n"dull",bad\n', {}),
        ("t.csv", "\ufefflabel,text\ngood,fine\nbad,dull\n", {}),
        ("t.jsonl", '{"text": "fine", "label": "good"}\n\n{"label": "bad", "text": "dull"}\n', {}),
        ("t.csv", "Title,Label,Text\nx,good,fine\ny,bad,dull\n", {}),  # of two usual names the most usual
        (
            "t.jsonl",
            '{"Title": "x", "TEXT": "fine", "Label": "good"}\n{"text": "dull", "title": "y", "label": "bad"}',
            {},
        ),
        ("t.jsonl", '{"a": "fine", "b": "good"}\n{"a": "dull", "b": "bad"}\n', {"text": "a", "label": "b"}),
    ],
)
def test_the_same_rows_in_every_form(table, name, text, columns):
    assert pairs(table(text, name, **columns)) == [("fine", "good"), ("dull", "bad")]
    assert pairs(table(text, name, **columns, labelled=False)) == [("fine", ""), ("dull", "")]


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("t.tsv", "fine\ndull\n", {}),
        ("t.tsv", "Text\nfine\ndull\n", {"label": "stars"}),
        ("t.tsv", "stars\twords\n\tfine\n\tdull\n", {"text": "2", "label": "stars"}),
        ("t.csv", "id,words\n7,fine\n8,dull\n", {"text": "words", "label": "stars"}),
        ("t.jsonl", '{"text": "fine"}\n{"text": "dull", "label": null}\n', {}),
    ],
)
def test_labels_that_are_not_needed(table, name, text, columns):
    assert pairs(table(text, name, **columns, labelled=False)) == [("fine", ""), ("dull", "")]
    with pytest.raises(DataError):
        list(table(text, name, **columns))


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1).filter(str.strip)
labels = cells.filter(lambda text: text.strip().splitlines() == [text.strip()] and "\t" not in text.strip())


@given(st.lists(st.tuples(cells, labels), min_size=1, max_size=6))
def test_csv_as_the_csv_module_writes_it(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("text", "label"), *rows])
    assert pairs(Table(path)) == [(text, label.strip()) for text, label in rows]


def test_a_row_over_several_lines_is_known_by_its_first(table):
    rows = list(table('text,label\n"one\ntwo",a\nthree,b\n', "t.csv"))
    assert [(row.line, row.text) for row in rows] == [(2, "one\ntwo"), (4, "three")]


def test_rows_without_a_text_have_their_place_where_no_labels_are_needed(table):
    for name, text in (("t.tsv", "text\tlabel\na\tx\n\ty\n"), ("t.jsonl", '{"text": "a"}\n{"text": null}\n')):
        assert [row.text for row in table(text, name, labelled=False)] == ["a", ""]


def test_several_labels_in_json(table):
    rows = '{"text": "a", "label": ["p", "q"]}\n{"text": "b", "label": []}\n{"text": "c", "label": "p"}\n'
    assert [row.label for row in table(rows, "t.jsonl", separator="|")] == ["p|q", "none", "p"]
    with pytest.raises(
        DataError, match=r"the label 'p\|q' has '\|' in it, which separates labels; choose another mark"
    ):
        list(table('{"text": "a", "label": ["p|q"]}\n', "t.jsonl", separator="|"))


def test_numbers_and_truth_as_labels(table):
    def read(*labels):
        lines = [json.dumps({"text": "x", "label": label}) for label in labels]
        return [label for _, label in pairs(table("\n".join(lines), "t.jsonl"))]

    assert read(1, True, 2.5, " 3 ") == ["1", "true", "2.5", "3"]
    assert read("3", " s ", True) == ["3", "s", "true"]
    with pytest.raises(DataError, match=r't.jsonl:3: the label "x" is a word, where line 2 has a number; give labels'):
        read("7", 1, "x")


def test_quotes_mean_nothing_in_tsv(table):
    assert pairs(table('"open\ta\nsay "x"\tb\n')) == [('"open', "a"), ('say "x"', "b")]


def test_a_very_long_text(table):
    text = "word " * 100_000
    assert pairs(table(f"text,label\n{text},a\n", "t.csv")) == [(text, "a")]


@pytest.mark.parametrize(
    ("name", "text", "columns", "said"),
    [
        ("t.tsv", "a\tx\nb\n", {}, "t.tsv:2: 1 column, where line 1 has 2; look for a tab too many or too few"),
        ("t.tsv", "a\tx\nb\ty\tz\n", {}, "t.tsv:2: 3 columns, where line 1 has 2"),
        ("t.tsv", "a b c\n", {}, "t.tsv:1: there is one column only; put a tab between text and label"),
        (
            "t.tsv",
            "a\tb\tc\n",
            {},
            "t.tsv:1: 3 columns, and it is not clear which is the text; choose it with text_column",
        ),
        ("t.tsv", "text\tkind\nq\tw\n", {"text": "text"}, "t.tsv:1: 2 columns, and it is not clear which is the label"),
        ("t.tsv", "a\tx\n \ty\n", {}, "t.tsv:2: the text is empty; give it one, or remove the row"),
        ("t.tsv", "a\tx\nb\t\n", {}, "t.tsv:2: the label is empty"),
        ("t.tsv", "\n\n", {}, "t.tsv: there is no row with a text and a label"),
        ("t.tsv", "text\tlabel\n", {}, "t.tsv: there is no row with a text and a label"),
        ("t.tsv", "text\tlabel\n", {"text": "txt"}, "t.tsv:1: there is no column 'txt'; did you mean text?"),
        ("t.tsv", "a\tx\n", {"label": "3"}, "t.tsv:1: there is no column 3, only 2; choose another label_column"),
        ("t.tsv", "a\tx\n", {"text": "2"}, "t.tsv:1: column 2 would be both the text and the label"),
        ("t.csv", 'text,label\nfine,a\n"dull,b\nmore,a\n', {}, "t.csv:3: a quote is opened here and never closed"),
        ("t.csv", 'text,label\n"a" b,x\n', {}, "t.csv:2: not CSV: ',' expected after '\"'; put the text in quotes"),
        ("t.csv", "text,label\na,b,c\n", {}, "t.csv:2: 3 columns, where line 1 has 2; look for a comma"),
        ("t.jsonl", '{"text": "a", "label": 1}\n{"text"}\n', {}, "t.jsonl:2: not JSON: expecting ':' delimiter"),
        ("t.jsonl", "[1]\n", {}, "t.jsonl:1: not a JSON object"),
        ("t.jsonl", '{"text": "a"}\n', {}, "t.jsonl:1: there is no label, only text; choose the label with"),
        ("t.jsonl", '{"text": 3, "label": 1}\n', {}, "t.jsonl:1: the text is 3; make it a string"),
        (
            "t.jsonl",
            '{"text": "a", "label": NaN}\n',
            {},
            "t.jsonl:1: the label is missing; give it one, or remove the row",
        ),
        (
            "t.jsonl",
            '{"text": "a", "label": ["p", "q"]}\n',
            {},
            """t.jsonl:1: the label is ["p", "q"]; make it a string or a number, or give target='labels'""",
        ),
        (
            "t.tsv",
            "Text\ttext\tlabel\na\tb\tc\n",
            {},
            "t.tsv:1: columns 1 and 2 are both named text; choose one by its number with text_column",
        ),
        (
            "t.csv",
            "x,x,label\na,b,c\n",
            {"text": "x"},
            "t.csv:1: columns 1 and 2 are both named x; choose one by its number",
        ),
        (
            "t.jsonl",
            '{"text": "a", "label": null}\n',
            {},
            "t.jsonl:1: the label is missing; give it one, or remove the row",
        ),
        (
            "t.xlsx",
            "a",
            {},
            "t.xlsx: its extension is not that of a table; give a table whose name ends in .tsv, .csv or .jsonl",
        ),
    ],
)
def test_bad_files(table, tmp_path, name, text, columns, said):
    with pytest.raises(DataError) as error:
        list(table(text, name, **columns))
    message = str(error.value).removeprefix(f"{tmp_path}/")
    assert message.startswith(said)
    assert "\n" not in message
    assert "; " in message


def test_a_pair_has_more_than_one_separator(text_file):
    with pytest.raises(DataError, match=r"put commas between first, second and label$"):
        list(PairTable(text_file("a b c\n", "p.csv")))


def test_wrong_encoding(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_bytes("fein\tgut\nschön\tgut\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"t.tsv:2: byte 0xf6 at column 4 is not UTF-8; convert"):
        list(Table(path))


def test_labels_that_nothing_can_be_learnt_from(table):
    with pytest.raises(DataError, match="every row has the label 'x'; give examples of at least two classes"):
        Target.learn(ClassifySettings.read({"train": "t"}), table("a\tx\nb\tx\n"))
    swapped = "".join(f"{k % 2}\tsentence number {k}\n" for k in range(50))
    with pytest.raises(DataError, match=r"50 different labels in 50 rows.*choose it with label_column"):
        Target.learn(ClassifySettings.read({"train": "t"}), table(swapped))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.jsonl", '{"text": "a", "label": ' + "[" * 50_000, "t.jsonl:1: not JSON: nested more than 100 levels deep"),
        ("t.jsonl", '{"text": "a", "label": ' + "9" * 5000 + "}", "t.jsonl:1: not JSON: a whole number has too many"),
        ("t.jsonl", '{"text": "a", "label": "b"}\n{"text": "\\ud800"}', r"t.jsonl:2: not JSON: \\ud800 is half a char"),
        ("t.jsonl", '{"text": "a", "label": "b"}\n{"text": "a", "la', "t.jsonl:2: not JSON: unterminated .* column 15"),
        ("t.jsonl", '{"text": "a", "label": "b\\nc"}', r"t.jsonl:1: the label 'b\\nc' has a line break or a tab"),
        ("t.csv", 'text,label\na,"b\nc"\n', r"t.csv:2: the label 'b\\nc' has a line break or a tab in it; write it"),
        ("t.csv", 'text,label\na,"b\tc"\n', r"t.csv:2: the label 'b\\tc' has a line break or a tab in it"),
    ],
    ids=range(7),
)
def test_one_short_line(table, name, text, said):
    with pytest.raises(DataError, match=said) as caught:
        pairs(table(text, name))
    assert len(str(caught.value)) < 400
