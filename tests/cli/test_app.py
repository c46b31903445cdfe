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
