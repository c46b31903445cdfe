"""How far a lab has come, on stderr: a bar on a terminal, and a line for each part that is done anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class Bar:
    """A table that grows by a row whenever a part is done, and below it a bar for the part under way.

    >>> bar = Bar(quiet=True)
    >>> with bar.over("cell   accuracy", total=10, says="accuracy {:.0%}"):
    ...     bar.start("LSTM")
    ...     bar.advance(4, 0.98)
    ...     bar.finish("LSTM   98 %", unused=6)
    """

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, highlight=False, quiet=quiet)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[says]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=self.console,
            transient=True,
            disable=quiet or not self.console.is_terminal,
        )

    @contextmanager
    def over(self, head: str, total: float, says: str = "") -> Iterator[None]:
        """Show the table's `head`, then the bar until the block ends.

        `total` is the work there is at most; `says` is how the bar words the number that `advance` gives it.
        """
        self.total, self.says = total, says
        self.task = self.progress.add_task("", total=total, says="")
        self._line(head, "bold")
        with self.progress:
            yield

    def start(self, part: str) -> None:
        self.progress.update(self.task, description=part, says="")

    def advance(self, work: float, number: float) -> None:
        self.progress.update(self.task, advance=work, says=self.says.format(number))

    def finish(self, row: str, unused: float = 0.0) -> None:
        """Add a row. `unused` work was never done: it leaves the total, so that the time left stays honest."""
        self.total -= unused
        self.progress.update(self.task, total=self.total)
        self._line(row)

    def _line(self, text: str, style: str | None = None) -> None:
        self.console.print(text, style=style, markup=False, soft_wrap=True)
