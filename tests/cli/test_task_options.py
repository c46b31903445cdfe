"""Commands with the options that the task of a run declares."""

import inspect
from pathlib import Path

import pytest
import typer

from carousel.cli.task_options import for_task, refuse_command, refuse_files
from carousel.errors import RunError
from carousel.tasks import find


def command(run: Path, json: bool = False, **options: object) -> dict:
    raise NotImplementedError


def declared(task):
    return task.predict_options


def test_options_of_the_named_task_are_added():
    own = for_task(command, declared, ["run", "--task", "tag"])
    names = list(inspect.signature(own).parameters)
    assert names == ["run", "json", *find("tag").predict_options]
    assert list(inspect.signature(for_task(command, declared, ["run"])).parameters) == ["run", "json"]


def test_what_is_not_given_is_not_passed_on():
    seen = {}

    def take(run: Path, **options: object) -> None:
        seen.update(options)

    own = for_task(take, declared, ["--task=tag"])
    own(run=Path("r"), tokenized=False, n_best=None, conll=True)
    assert seen == {"conll": True}


def test_an_option_of_another_task_is_named():
    with pytest.raises(RunError, match="--draw is for runs of tree; this is one of tag"):
        for_task(command, declared, ["run", "--task", "tag", "--draw"])


def test_commands_and_files_that_a_task_does_not_have():
    with pytest.raises(RunError, match="run: is a run of tag; carousel embed is for runs of"):
        refuse_command(Path("run"), "embed", find("tag"))
    refuse_command(Path("run"), "embed", find("bilm"))
    refuse_files(find("translate"), 2, "DATA")
    with pytest.raises(typer.BadParameter, match="the task tag reads one file; got 2"):
        refuse_files(find("tag"), 2, "DATA")
