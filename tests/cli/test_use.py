"""`carousel eval`, `score` and `generate`: tables, JSON, pipes, and one line for what cannot be."""

import io
import json
import math
import re
import subprocess
import sys

import pytest

import carousel as library
from carousel.cli.use import show
from carousel.tasks.lm.settings import LanguageSettings
from carousel.tasks.lm.task import LanguageTask
from carousel.training.trainer import train

POEMS = [
    "床前明月光，疑是地上霜。舉頭望明月，低頭思故鄉。",
    "春眠不覺曉，處處聞啼鳥。夜來風雨聲，花落知多少。",
    "白日依山盡，黃河入海流。欲窮千里目，更上一層樓。",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("poems")
    (folder / "poems.txt").write_text("\n".join(POEMS) + "\n", "utf-8")
    given = {"hidden": 8, "embedding": 8, "epochs": 2, "threads": 1, "batch_size": 2, "lr": 0.05}
    settings = LanguageSettings.read({"train": folder / "poems.txt", "cache": folder / "cache", **given})
    train(LanguageTask, settings, folder / "run", quiet=True, report=False)
    return folder / "run"


@pytest.fixture
def text(run):
    return run.parent / "poems.txt"


@pytest.fixture
def works(carousel):
    """Runs the command, which must work and say nothing on stderr: its lines."""

    def call(*args):
        code, out, err = carousel(*args)
        assert (code, err) == (0, "")
        assert "\x1b" not in out
        return out.splitlines()

    return call


@pytest.fixture
def refused(carousel):
    """Runs the command, which must exit with `code` and say one line and nothing else: the line."""

    def call(*args, code=1):
        found, out, err = carousel(*args)
        assert (found, out) == (code, "")
        assert len(err.splitlines()) == 1, err
        return err.removeprefix("error: ").rstrip("\n")

    return call


# ---------------------------------------------------------------- eval


def test_eval(works, run, text):
    expected = library.load(run).evaluate(text)
    lines = works("eval", run, text)
    assert [line.split("  ")[0].strip() for line in lines] == [
        "perplexity", "perplexity without [END]", "bits per character", "tokens", "unknown tokens"
    ]  # fmt: skip
    assert lines[0].split() == ["perplexity", f"{expected['perplexity']:.4f}"]
    assert len({len(line) - len(line.split()[-1]) for line in lines}) == 1  # one column
    told = json.loads("".join(works("eval", run, text, "--json")))
    assert told == {"run": str(run), "data": str(text), **expected}


@pytest.mark.parametrize(
    "data, said",
    [(b"", "the file is empty"), (b"\xff", ":1: byte 0xff at column 1"), (b"xyz\n", "none of its 3 tokens is in")],
)
def test_eval_of_bad_text(refused, run, tmp_path, data, said):
    (tmp_path / "bad.txt").write_bytes(data)
    line = refused("eval", run, tmp_path / "bad.txt")
    assert said in line and line.startswith(f"{tmp_path / 'bad.txt'}:")


def test_a_run_that_is_none(refused, tmp_path, text):
    for args in (["eval", tmp_path / "no", text], ["score", tmp_path / "no", text], ["generate", tmp_path / "no"]):
        assert refused(*args) == f"{tmp_path / 'no'}: no such run; give a directory that carousel train made"
        assert "not a run, it has no config.yaml" in refused(args[0], tmp_path, *args[2:])


def test_eval_of_a_long_line_holds_one_window_at_a_time(works, run, tmp_path):
    """A million characters: what is in memory does not grow with the line."""
    (tmp_path / "long.txt").write_text("床前明月光，" * 40_000)
    told = json.loads("".join(works("eval", run, tmp_path / "long.txt", "--json")))
    assert told["tokens"] == 240_001


def test_of_many_classes_the_most_frequent_mistakes_are_shown(capsys):
    names = [chr(ord("a") + k) for k in range(12)]
    table = {right: {said: 0 for said in names} for right in names}
    for k, right in enumerate(names):
        table[right][right] = 100
        table[right][names[k - 1]] = k
    table["d"]["a"] = 4_000
    show({"accuracy": 0.5, "confusion": table})
    head, *mistakes = capsys.readouterr().out.splitlines()[2:]
    assert head == "mistakes: the 10 most frequent of 12 kinds; all with --json"
    assert mistakes[:2] == ["    4,000  d predicted as a", "       11  l predicted as k"]
    assert len(mistakes) == 10
    show(
        {"accuracy": 0.5, "confusion": {right: dict(list(row.items())[:10]) for right, row in list(table.items())[:10]}}
    )
    assert len(capsys.readouterr().out.splitlines()) == 2 + 1 + 1 + 10  # a table


def test_results_have_the_names_that_readers_use(capsys):
    worst = [{"line": 1, "chrf": 0.5, "source": "a", "translation": "b"}]
    show(
        {
            "macro_f1": 0.5,
            "unknown": 1200,
            "classes": {"f1": {"f1": 1.0}},
            "confusion": {"mae": {"mae": 3}},
            "worst": worst,
        }
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["macro F1        0.5000", "unknown tokens  1,200"]
    assert lines[3:6] == ["classes", "          F1", "  f1  1.0000"]  # a class keeps its name
    assert lines[8:10] == ["       mae", "  mae    3"]
    assert lines[11:] == ["line 1  chrF 0.5000", "  source       a", "  translation  b"]


# ---------------------------------------------------------------- score


def test_score(works, run, text):
    expected = list(library.load(run).score(POEMS))
    head, *lines = works("score", run, text)
    assert head == "log_prob\ttokens\tperplexity\tline"
    for line, found in zip(lines, expected, strict=True):
        log_prob, tokens, perplexity, said = line.split("\t")
        assert float(log_prob) == pytest.approx(found.total, abs=1e-4)
        assert (int(tokens), said) == (25, found.line)
        assert float(perplexity) == pytest.approx(math.exp(-found.total / 25), abs=0.01)


def test_score_as_json(works, run, text):
    for line, found in zip(works("score", run, text, "--json"), library.load(run).score(POEMS), strict=True):
        told = json.loads(line)
        assert told["line"] == found.line
        assert told["log_prob"] == pytest.approx(found.total, abs=1e-5)
        assert told["perplexity"] == pytest.approx(found.perplexity)
        assert [token for token, _ in told["tokens"]] == [*found.line, "[END]"]
        assert sum(p for _, p in told["tokens"]) == pytest.approx(found.total, abs=1e-3)


def test_score_by_token_from_a_pipe(works, run, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("明月\r\n春\n".encode())))
    rows = [line.split("\t") for line in works("score", run, "--tokens")]
    assert [row[:2] for row in rows] == [
        ["line", "token"], ["1", "明"], ["1", "月"], ["1", "[END]"], ["2", "春"], ["2", "[END]"],
    ]  # fmt: skip
    assert all(float(row[2]) < 0 for row in rows[1:])


def test_score_of_a_bad_pipe(carousel, run, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("明月\n".encode() + b"\xff\n")))
    code, _, err = carousel("score", run)
    assert code == 1
    assert err.startswith("error: standard input:2: byte 0xff at column 1 is not UTF-8")
    assert len(err.splitlines()) == 1


def test_a_file_that_cannot_be_scored_prints_nothing(carousel, run, text_file):
    code, out, err = carousel("score", run, text_file("", "empty.txt"))
    assert (code, out) == (1, "") and "the file is empty" in err


# ---------------------------------------------------------------- generate


def test_generate(works, run):
    first = works("generate", run, "-n", 5, "--seed", 3, "--max-length", 20)
    assert first == works("generate", run, "-n", 5, "--seed", 3, "--max-length", 20, "--batch-size", 2)
    assert first == works("generate", run, "-n", 5, "--seed", 3, "--max-length", 20, "--temperature", 1)
    assert first != works("generate", run, "-n", 5, "--seed", 4, "--max-length", 20)
    made = library.load(run).generate(num_return_sequences=5, seed=3, max_length=20)
    assert first == [one.text for one in made.sequences]


def test_a_fresh_seed_is_printed_and_repeats_the_text(carousel, works, run):
    code, out, err = carousel("generate", run, "--max-length", 20)
    assert code == 0 and re.fullmatch(r"seed: \d+\n", err)
    assert works("generate", run, "--max-length", 20, "--seed", err.split()[1]) == out.splitlines()
    assert carousel("generate", run, "--max-length", 20)[2] != err


def test_on_a_terminal_the_same_text_is_streamed(works, run, monkeypatch):
    args = ["generate", run, "-n", 2, "--prompt", "床", "--prompt", "春", "--seed", 3, "--max-length", 20]
    whole = works(*args)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("carousel.tasks.lm.predictor.LanguageModel.generations", None)  # not called
    assert works(*args) == whole


@pytest.mark.parametrize("terminal", [True, False])
def test_reading_a_terminal_is_announced(carousel, run, monkeypatch, terminal):
    given = io.TextIOWrapper(io.BytesIO("明月\n".encode()))
    monkeypatch.setattr(given, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr("sys.stdin", given)
    code, out, err = carousel("score", run)
    assert code == 0 and len(out.splitlines()) == 2
    assert err == ("reading standard input, one item per line; end it with Ctrl-D\n" if terminal else "")


def test_help_of_score_names_every_column(works):
    text = " ".join(works("score", "--help"))
    for column in ("log-probability", "number of tokens", "perplexity", "the line itself"):
        assert column in text


def test_prompts(works, run, tmp_path):
    (tmp_path / "heads.txt").write_text("床前\n\n春眠\n", "utf-8")
    args = ["--prompts", tmp_path / "heads.txt", "--prompt", "黃河", "-n", 2, "--max-length", 9, "--seed", 1]
    lines = works("generate", run, *args)
    assert [line[:2] for line in lines] == ["黃河", "黃河", "床前", "床前", "春眠", "春眠"]


def test_generate_as_json(works, run):
    [line] = works("generate", run, "--num-beams", 1, "--json", "--prompt", "明月", "--max-length", 12)
    values = json.loads(line)
    made = library.load(run).generate("明月", num_beams=1, max_length=12)
    assert values["text"] == made.text
    assert values["log_prob"] == pytest.approx(made.log_prob, abs=1e-5)
    assert (values["tokens"], values["finished"]) == (made.tokens, made.finished)
    assert "seed" not in values
    [line] = works("generate", run, "--json", "--seed", 7, "--max-length", 12)
    assert json.loads(line)["seed"] == 7


def test_forms_rhymes_and_acrostics(works, run, tmp_path):
    (tmp_path / "rhymes.tsv").write_text("甲\t光霜鄉\n乙\t曉鳥少\n", "utf-8")
    rules = ["--form", "五言絕句", "--acrostic", "春山明月", "--rhyme", tmp_path / "rhymes.tsv", "--rhyme-class", "乙"]
    for line in works("generate", run, "-n", 3, "--top-k", 30, *rules, "--no-repeat-ngram-size", 2, "--seed", 1):
        assert (len(line), line[::6]) == (24, "春山明月")
        assert {line[10], line[22]} < set("曉鳥少")


@pytest.mark.parametrize(
    "args, code, message",
    [
        (["--prompt", "床Q"], 2, "prompt 1: the model does not know 'Q'; choose another, or set --unknown to allow"),
        (["--top-k", 5000], 2, "--top-k: must be at most"),
        (["--top-k", 0], 2, "--top-k: must be a whole number of at least 1, got 0"),
        (["--num-beams", 3, "--top-k", 2], 2, "--num-beams and --top-k: beam search does not sample; give one of them"),
        (["-n", 0], 2, "--num-return-sequences: must be a whole number of at least 1 and at most 1000000, got 0"),
        (["-n", 2, "--num-beams", 1], 2, "--num-return-sequences: greedy search has one result"),
        (["--temperature", "hot"], 2, "--temperature"),
        (["--temperature", 0], 2, "--temperature: must be a number above 0, got 0.0"),
        (["--unknown", "replace"], 2, "--unknown: replace needs a source to copy from"),
        (["--form", "五言律"], 2, "did you mean 五言律詩?"),
        (["--acrostic", "Q"], 2, "--acrostic: the model does not know 'Q'"),
        (["--rhyme-class", "甲"], 2, "--rhyme-class: it needs a table of rhymes; give --rhyme too"),
        (["--prompts", "none.txt"], 1, "none.txt: no such file"),
        (["--rhyme", "none.tsv", "--form", "五言律詩"], 1, "none.tsv: no such file"),
        (["--topk", 3], 2, "--top-k"),
        (["--beam", 3], 2, "--num-beams"),
    ],
    ids=str,
)
def test_options_that_are_refused(refused, run, args, code, message):
    assert message in refused("generate", run, *args, "--seed", 1, code=code)


def test_a_table_of_rhymes_that_is_none(refused, run, tmp_path):
    (tmp_path / "rhymes.tsv").write_text("甲\t光霜\n乙 曉鳥\n", "utf-8")
    line = refused("generate", run, "--form", "五言絕句", "--rhyme", tmp_path / "rhymes.tsv")
    assert line.startswith(f"{tmp_path / 'rhymes.tsv'}:2: not of the form class TAB characters")


def test_an_unknown_prompt_can_be_allowed(works, run):
    assert len(works("generate", run, "--prompt", "床Q", "--unknown", "allow", "--max-length", 4, "--seed", 1)) == 1


@pytest.mark.parametrize("command", ["eval", "score", "generate"])
def test_help_teaches_by_example(works, command):
    out = "\n".join(works(command, "--help"))
    assert f"carousel {command} run" in out


# ---------------------------------------------------------------- a real pipe


@pytest.mark.slow
def test_into_a_pipe_that_closes(run):
    """As `carousel generate run -n 500 | head -1` does: the reader has had enough, and that is no error to report."""
    command = [
        sys.executable,
        "-m",
        "carousel.cli.main",
        "generate",
        str(run),
        "-n",
        "4000",
        "--batch-size",
        "50",
        "--seed",
        "1",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        process.wait(120)
    assert "Traceback" not in said
    assert len(said.splitlines()) <= 1
