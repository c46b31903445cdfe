"""The bar of a lab: rows as parts end, and work that was never done."""

import io

from rich.console import Console

from carousel.lab.progress import Bar


def test_a_row_for_each_part_and_no_bar_where_there_is_no_terminal():
    bar = Bar()
    bar.console = Console(file=io.StringIO(), highlight=False)
    with bar.over("cell   accuracy", total=10, says="accuracy {:.0%}"):
        bar.start("LSTM")
        bar.advance(4, 0.98)
        bar.finish("LSTM   [98 %]", unused=6)
        [task] = bar.progress.tasks
        assert (task.completed, task.total) == (4, 4)
        assert task.description == "LSTM" and task.fields["says"] == "accuracy 98%"
    assert bar.console.file.getvalue() == "cell   accuracy\nLSTM   [98 %]\n"  # brackets are not markup


def test_quiet_prints_nothing(capsys):
    bar = Bar(quiet=True)
    with bar.over("cell", total=1):
        bar.finish("LSTM")
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
