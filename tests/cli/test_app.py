"""Help as plain text: it fits 80 columns, nothing that is copied from it is broken, and it shows no Python types."""

import re
from typing import Annotated

import pytest
import typer

from carousel.cli.app import App
from carousel.cli.main import COMMANDS, main
from carousel.tasks import names

EVERY = [
    *([name] for name in COMMANDS),
    *(["train", name] for name in names()),
    *(["baseline", name] for name in names()),
    ["data", "get"],
    ["bench", "layers"],
]


@pytest.fixture
def page(capsys, monkeypatch):
    """The help of a command, at a width."""

    def show(*args, width=80):
        monkeypatch.setenv("COLUMNS", str(width))
        with pytest.raises(SystemExit) as end:
            main([*args, "--help"])
        assert end.value.code == 0
        return capsys.readouterr().out

    return show


@pytest.mark.parametrize("args", [[], *EVERY], ids=" ".join)
def test_help_fits_eighty_columns(page, args):
    text = page(*args)
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"<(bool|int|float|str|path|list)\b|\bx[<>]=|\[default: \(", text)
    assert text.startswith(f"Usage: {' '.join(['carousel', *args])}")


def test_choices_are_not_broken_inside_words(page):
    """Every choice of an option is one word of the page, however narrow it is."""
    whole = page("train", "tag", width=100)
    choices = {word for line in re.findall(r"--[\w-]+ (\S+\|\S+)", whole) for word in line.split("|")}
    assert {"lstm", "gru-reset-before", "adamw", "cosine"} <= choices
    narrow = page("train", "tag", width=60)
    assert choices <= set(re.split(r"[\s|]+", narrow))
    assert not re.search(r"^ *\|", narrow, re.MULTILINE)


def test_rows_examples_and_defaults(monkeypatch, capsys):
    """A page worked by hand: a short name beside its text, a long one above it, examples as they are."""
    monkeypatch.setenv("COLUMNS", "60")
    app = App(name="tool")

    @app.command()
    def run(
        data: Annotated[str, typer.Argument(metavar="DATA", help="What is read.")],
        kind: Annotated[str, typer.Option(metavar="one|another|a-third-choice|the-fourth", help="Which.")] = "one",
        n: Annotated[int, typer.Option(metavar="N", help="A number that takes more than one line of text.")] = 12345,
        loud: Annotated[bool, typer.Option("--loud", help="Say more.", rich_help_panel="Sound")] = False,
    ) -> None:
        """Run it.

        \b
        tool run data.txt --kind one     # as is
        """

    app(["--help"], prog_name="tool", standalone_mode=False)
    assert (
        capsys.readouterr().out
        == """\
Usage: tool [OPTIONS] DATA

  Run it.

  tool run data.txt --kind one     # as is

Arguments:
  DATA  What is read.

Options:
  --kind one|another|a-third-choice|the-fourth
              Which. [default: one]
  --n N       A number that takes more than one line of
              text. [default: 12345]
  -h, --help  Show this message and exit.

Sound:
  --loud  Say more.
"""
    )


def test_a_group_without_a_command_shows_its_help(capsys):
    for args in ([], ["train"], ["bench"]):
        with pytest.raises(SystemExit) as end:
            main(args)
        assert end.value.code == 0
        assert "Commands:\n" in capsys.readouterr().out


def test_colours_only_where_they_are_wanted(monkeypatch):
    from carousel.cli.app import bold

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert bold("Usage") == "\x1b[1mUsage\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert bold("Usage") == "Usage"


@pytest.mark.parametrize(
    "args",
    [
        ["similar", "run", "--to", "a", "-n", "1_0"],
        ["generate", "run", "--top-k=1_0"],
        ["generate", "run", "--temperature", "1_0.5"],
        ["generate", "run", "--temperature", "hot"],
        ["demo", "--seed", "1_0"],
        ["bench", "tag", "--seconds", "1_0"],
        ["lab", "bptt", "--seed", "1_0"],
    ],
    ids=lambda args: args[0],
)
def test_numbers_are_written_in_digits(args, capsys):
    """Python reads 1_0 as 10; a user who writes it has mistyped something."""
    with pytest.raises(SystemExit) as end:
        main(args)
    assert end.value.code == 2
    assert re.search(r"(1_0(\.5)?|hot)' is not a number in digits \(see carousel", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("pedict run", "there is no command 'pedict'; did you mean predict? (see carousel --help)"),
        ("evaluate run", "there is no command 'evaluate'; did you mean eval? (see carousel --help)"),
        ("tag names.conll", "there is no command 'tag'; did you mean train tag? (see carousel --help)"),
        ("xyzzy", "there is no command 'xyzzy' (see carousel --help)"),
        ("train clasify a.tsv", "there is no task 'clasify'; did you mean classify? (see carousel train --help)"),
        ("train NER", "there is no task 'NER'; did you mean tag? (see carousel train --help)"),
        ("sweep lmm", "there is no task 'lmm'; did you mean lm? (see carousel sweep --help)"),
        ("baseline seq2seq", "there is no task 'seq2seq'; did you mean translate? (see carousel baseline --help)"),
        ("lab vanishin", "there is no command 'vanishin'; did you mean vanishing? (see carousel lab --help)"),
        ("check pos a.tsv", "task: there is no 'pos'; did you mean tag?"),
    ],
)
def test_an_unknown_command_or_task_names_the_near_miss(words, line, capsys):
    with pytest.raises(SystemExit):
        main(words.split())
    assert capsys.readouterr().err == f"error: {line}\n"


def test_what_a_reader_may_say_leads_to_what_there_is():
    from carousel.cli.main import SYNONYMS
    from carousel.tasks import registry

    assert set(registry.SYNONYMS.values()) <= set(names()) and not set(registry.SYNONYMS) & set(names())
    assert {said.split()[0] for said in SYNONYMS.values()} <= set(COMMANDS) and not set(SYNONYMS) & set(COMMANDS)
