"""`carousel check`: what it took the data for, and how to say otherwise."""

import json
import re

import pytest

from carousel.cli import main as cli


@pytest.fixture
def check(capsys):
    def run(*args):
        with pytest.raises(SystemExit) as stop:
            cli.main(["check", *map(str, args)])
        out, err = capsys.readouterr()
        assert not stop.value.code, err
        return out

    return run


def test_a_series_is_recognised(check, text_file):
    rows = "".join(f"{1949 + k // 12}-{k % 12 + 1:02d},{100 + k % 12}\n" for k in range(60))
    out = check(text_file("Month,Passengers\n" + rows, "flights.csv"))
    said = "Read as data for forecast (its rows look like a time series): times in Month; variables: Passengers."
    assert out.splitlines()[0] == said
    assert out.splitlines()[1] == "Options that change this: --task, --set time_column=…, --set columns=…"


def test_the_columns_are_named(check, text_file):
    rows = "".join(f"{k},a fine film,{'good' if k % 2 else 'bad'},{k % 3}\n" for k in range(30))
    out = check(text_file("id,text,label,rating\n" + rows, "t.csv"))
    said = "text in column 2 (text), label in column 3 (label), the header is line 1."
    assert out.splitlines()[0] == f"Read as data for classify (its name ends in .csv): {said}"
    assert "t.csv: the label is read from label; to read rating, give --label-column" in out
    chosen = check(text_file("id,text,label,rating\n" + rows, "t.csv"), "--set", "label_column=rating", "--json")
    found = json.loads(chosen)
    assert found["task"] == "classify" and "label in column 4 (rating)" in found["reading"]
    assert not any("to read" in warning for warning in found["warnings"])


def test_keys_of_json(check, text_file):
    rows = [json.dumps({"text": "a fine film", "label": k % 2, "stars": 1}) for k in range(30)]
    out = check(text_file("\n".join(rows), "t.jsonl"))
    assert "text in text, label in label." in out and "to read stars, give --label-column" in out


def test_a_header_that_is_read_as_data(check, text_file):
    rows = "".join(f"play song {k},{'music' if k % 2 else 'alarm'}\n" for k in range(30))
    out = check(text_file("Utterance,Intent\n" + rows, "t.csv"))
    assert re.search(r"t\.csv:1: no other row has the label 'Intent'; if this row names the columns, give --text-", out)
    named = ("--set", "text_column=Utterance", "--set", "label_column=Intent")
    assert "no other row" not in check(text_file("Utterance,Intent\n" + rows, "t.csv"), *named)


def test_long_paths_can_be_told_apart(check, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / ("a-long-name-" * 6) / ("another-" * 8)
    files = []
    for name in ("before", "after"):
        (folder / name).mkdir(parents=True)
        files.append(folder / name / "reviews.tsv")
        files[-1].write_text("a fine film\tgood\na dull one\tbad\n" * 5)
    heading = next(
        line for line in check(files[0], "--dev", files[1]).splitlines() if "reviews.tsv" in line and "┃" in line
    )
    assert "before/reviews.tsv" in heading and "after/reviews.tsv" in heading


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "t.conll",
            "Ada\tB-PER\nsat\tO\n\n" * 9,
            "tag (its name ends in .conll): words in column 1, tags in the last col",
        ),
        ("t.txt", "(3 (2 fine) (2 film))\n(1 (2 dull) (1 one))\n", "tree (its rows look like trees): trees in Penn br"),
        ("t.txt", "some text\nmore text\n", "lm (its name ends in .txt): one item on each line; character tokens"),
        (
            "t.tsv",
            "".join(f"word {k}\tWort {k}\n" for k in range(60)),
            "translate (its rows look like translations): so",
        ),
    ],
)
def test_every_task_says_what_it_reads(check, text_file, name, text, said):
    page = check(text_file(text, name)).splitlines()
    assert page[0].startswith(f"Read as data for {said}")
    assert page[1].startswith("Options that change this: --task")


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ("running", "one stream of text, with its line breaks; word tokens."),
        ("sentences", "one stream of sentences, one on each line; word tokens."),
    ],
)
def test_what_a_language_model_assumed_and_how_to_change_it(check, text_file, layout, said):
    file = text_file("some text\nmore text\n" * 9)
    assumed = check(file).splitlines()
    assert assumed[0].endswith("one item on each line; character tokens.")
    assert assumed[1] == "Options that change this: --task, --set layout=…, --set tokens=…"
    chosen = check(file, "--set", f"layout={layout}", "--set", "tokens=word").splitlines()
    assert chosen[0].endswith(said)
