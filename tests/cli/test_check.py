"""`carousel check`: what it took the data for, and how to say otherwise."""

import json
import re

import pytest

from carousel.api import check as check_data
from carousel.cli import main as cli
from carousel.errors import DataError


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
    assert (
        out.splitlines()[1]
        == "To read it otherwise, give --time-column, --columns or another task (carousel check TASK DATA)."
    )


def test_the_columns_are_named(check, text_file):
    rows = "".join(f"{k},a fine film,{'good' if k % 2 else 'bad'},{k % 3}\n" for k in range(30))
    out = check(text_file("id,text,label,rating\n" + rows, "t.csv"))
    said = "text in column 2 (text), label in column 3 (label), the header is line 1."
    assert out.splitlines()[0] == f"Read as data for classify (its name ends in .csv): {said}"
    assert "t.csv: the label is read from label; to read rating, give --label-column" in out
    chosen = check(text_file("id,text,label,rating\n" + rows, "t.csv"), "--label-column", "rating", "--json")
    found = json.loads(chosen)
    assert found["task"] == "classify" and "label in column 4 (rating)" in found["reading"]
    assert not any("to read" in warning for warning in found["warnings"])


def test_an_error_says_for_which_task_the_data_was_read(carousel, text_file):
    rows = "".join(f"{k},{k},{'good' if k % 2 else 'bad'}\n" for k in range(30))
    path = text_file("one,two,three\n" + rows, "t.csv")
    code, _, err = carousel("check", path)
    assert code == 1 and "3 columns, and it is not clear which is the text" in err
    assert err.endswith("(read as data for classify: its name ends in .csv; name the task if it is for another)\n")
    assert "read as data" not in carousel("check", "classify", path)[2]
    with pytest.raises(DataError, match=r"\(read as data for classify: its name ends in .csv; name the task"):
        check_data(path)


def test_several_series_without_their_ids(carousel, text_file):
    rows = "".join(f"{shop},2020-01-{day:02d},{day}\n" for shop in "ab" for day in range(1, 20))
    code, _, err = carousel("check", text_file("shop,day,sales\n" + rows, "t.csv"))
    assert code == 1 and "column shop has words, such as 'a'; if they are the ids of several series, give --ser" in err
    assert "(read as data for forecast: its rows look like a time series;" in err


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
    assert page[1].endswith("another task (carousel check TASK DATA).")


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
    assert assumed[1] == "To read it otherwise, give --layout, --tokens or another task (carousel check TASK DATA)."
    chosen = check("lm", file, "--layout", layout, "--tokens", "word").splitlines()
    assert chosen[0].endswith(said)


@pytest.mark.parametrize("first", [True, False])
def test_options_are_those_of_train_that_are_about_data(check, carousel, text_file, first):
    file = text_file("".join(f"{k % 3},{'ab'[k % 2]} word\n" for k in range(30)), "t.csv")
    task = ["classify"] if first else []
    found = json.loads(check(*task, file, "--text-column", 2, "--label-column", 1, "--lower", "--json"))
    assert found["reading"] == "text in column 2, label in column 1, no header"
    assert found["train"]["labels"] == {"0": 10, "1": 10, "2": 10}
    page = check(*(task or [file]), "--help")
    assert "--label-column COLUMN" in page or "--label-column TEXT" in page
    assert "--hidden" not in page and "--batch-size" not in page
    code, _, err = carousel("check", *task, file, "--label-colum", 1)
    assert code == 2 and "there is no option --label-colum; did you mean --label-column?" in err
    code, _, err = carousel("check", *task, file, "--set", "label_colum=1")
    assert code == 1 and "--set label_colum: there is no such key; did you mean label_column?" in err


def test_the_task_comes_first(check, carousel, text_file, tmp_path):
    pairs = text_file("".join(f"word {k}\tlabel {k % 2}\n" for k in range(60)), "t.tsv")
    assert check("translate", pairs, "--tokens", "word").startswith("Read as data for translate: source in column 1")
    assert check("classify", pairs).startswith("Read as data for classify: text in column 1")
    code, _, err = carousel("check", "clasify", pairs)
    assert code == 1 and "there is no 'clasify'; did you mean classify?" in err
    code, _, err = carousel("check", "classify", pairs, pairs)
    assert code == 2 and "the task classify reads one file; got 2" in err
    code, _, err = carousel("check", "classify")
    assert code == 2 and "Missing argument" in err
    code, _, err = carousel("check", tmp_path / "none.tsv", "--label-column", 1)
    assert code == 1 and "none.tsv: no such file" in err


def test_files_of_pairs_and_options_before_the_data(check, text_file):
    source, target, dev = (text_file("a b\nc d\n" * 9, name) for name in ("t.en", "t.de", "d.en"))
    assert check(source, target, "--dev", dev, target).startswith("Read as data for translate (2 files)")
    assert check("--json", text_file("some text\nmore text\n")).startswith('{"task": "lm"')
    assert check("lm", "--dev", dev, source, "--tokens", "word").startswith("Read as data for lm: one item")


def test_null_is_the_default_of_an_option(check, carousel, text_file):
    file = text_file("text,label\n" + "a fine film,good\na dull one,bad\n" * 9, "t.csv")
    assert "label in column 2 (label)" in check("classify", file, "--label-column", "null")
    code, out, _ = carousel("baseline", "classify", file, "--dev", file, "--label-column", "null")
    assert code == 0 and "majority class" in out
