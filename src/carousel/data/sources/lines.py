"""Text files, read as they stream past: one item per line, or running text.

A path may be a pattern (`corpus/*.txt`): its files are read one after the other. Compressed files are read as they are.

Every complaint about a file of text is made here, with the line it stands on. A file may end its lines with CRLF and
begin with a byte order mark; neither reaches the text. Nothing else is changed: spaces at either end of a line stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from ...errors import DataError, did_you_mean
from ...progress import advance
from .blocks import LARGE, Block, Raw, raw_blocks, spaced
from .files import matching, open_bytes, plain_size, size_of
from .split import End, Splittable

T = TypeVar("T")

BLOCK = 1 << 20  # bytes of a line of running text that are held at once
CHUNK = 1 << 20  # characters that are worked on at once

_BOM = b"\xef\xbb\xbf"
_OTHER_BOMS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


class Piece(NamedTuple):
    """A stretch of text, the number of the line it stands on, and whether `[END]` follows it."""

    line: int
    text: str
    end: bool


class Source(Protocol):
    """What a reader of plain text offers: its file, the name of its layout, and its text in pieces, again and again."""

    path: Path
    layout: str

    @property
    def files(self) -> tuple[Path, ...]: ...

    @property
    def part_mark(self) -> dict[str, Any]: ...

    def pieces(self) -> Iterator[Piece]: ...

    def __iter__(self) -> Iterator[str]: ...


def check_file(path: str | Path) -> Path:
    """`path` as a Path, if a file that can be read more than once and is not empty stands there; else a DataError.

    >>> from carousel.data import check_file
    >>> check_file("no-such-poems.txt")
    Traceback (most recent call last):
    ...
    carousel.errors.DataError: no-such-poems.txt: no such file; check the path
    """
    path = Path(path)
    if path.is_dir():
        raise DataError(path, None, "is a directory", "give a file of text")
    if not path.exists():
        raise DataError(path, None, "no such file", _near(path))
    if not path.is_file():
        raise DataError(path, None, "is not a regular file", "data is read more than once, so save it to a file first")
    try:
        with path.open("rb") as file:
            empty = not file.read(1)
    except OSError as error:
        raise DataError(path, None, (error.strerror or str(error)).lower(), "make the file readable") from error
    if empty:
        raise DataError(path, None, "the file is empty", "give a file with text in it")
    return path


def read_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield (number, text) of every line of a UTF-8 file, counted from 1, without its line end. Blank ones too.

    >>> import pathlib, tempfile
    >>> from carousel.data import read_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "poems.txt")
    ...     _ = file.write_bytes(b"one\\r\\n\\r\\n two ")
    ...     list(read_lines(file))
    [(1, 'one'), (2, ''), (3, ' two ')]
    """
    path = check_file(path)
    with open_bytes(path) as file:
        for number, raw in enumerate(advance(file, path, plain_size(path)), 1):
            text = decode(raw, path, number)
            yield number, text[:-1] if text.endswith("\n") else text


def check_files(path: str | Path) -> tuple[Path, ...]:
    """The file `path`, or those that match it if it is a pattern, sorted by name; each is checked by `check_file`.

    >>> from carousel.data.sources.lines import check_files
    >>> check_files("no-such-*.txt")
    Traceback (most recent call last):
    ...
    carousel.errors.DataError: no-such-*.txt: no file matches the pattern; check the path
    """
    return tuple(map(check_file, matching(path)))


class Lines(Splittable):
    """Text files with one item per line. Blank lines are skipped; `blank` counts those of the latest full reading.

    >>> import pathlib, tempfile
    >>> from carousel.data import Lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "poems.txt")
    ...     _ = file.write_text("one\\n\\ntwo\\n", "utf-8")
    ...     lines = Lines(file)
    ...     list(lines), lines.blank
    (['one', 'two'], 1)
    """

    layout = "lines"

    def __init__(self, path: str | Path) -> None:
        self.path, self.files = Path(path), check_files(path)
        self.blank = 0

    def pieces(self) -> Iterator[Piece]:
        """Yield the lines that are not blank. `[END]` is not part of them: batches of lines add it."""
        return self.selected(self._every(), lambda piece: piece.text)

    def keys(self) -> Iterator[str]:
        return iter(self)

    def _every(self) -> Iterator[Piece]:
        lines = blank = 0
        for file in self.files:
            number = 0
            for number, text in read_lines(file):
                if not text or text.isspace():
                    blank += 1
                else:
                    yield Piece(number, text, False)
            lines += number
        self.blank = blank
        if blank == lines:
            raise _all_blank(self.path, lines)

    def blocks(self, size: int = LARGE, share: float = 1.0) -> Iterator[Block]:
        """The same lines in blocks of about `size` bytes, or a `share` of the blocks, evenly spaced."""
        if self.part is not None:
            yield from spaced(in_blocks(self.pieces()), share)
            return
        lines = kept = 0
        raws = chain.from_iterable(raw_blocks(file, 0, None, 1, size, None) for file in self.files)
        for raw in spaced(raws, share):
            block = Block.of_lines(_checked(raw), newlines=False, end=False)
            full = block.without_blank()
            lines, kept = lines + len(block.ends), kept + len(full.ends)
            yield full
        if share == 1.0:
            self.blank = lines - kept
            if not kept:
                raise _all_blank(self.path, lines)

    def __iter__(self) -> Iterator[str]:
        return (piece.text for piece in self.pieces())

    def __repr__(self) -> str:
        return f"Lines({str(self.path)!r})"


class RunningText(Splittable):
    """A text file as one stream of text. With `end_lines`, each line ends in `[END]` in place of its newline.

    Characters and BPE keep newlines as a token. Words do not, since a newline is space between words; `end_lines`
    puts `[END]` there, as language models of the Penn Treebank do. Memory is constant even if the file is one line.

    >>> import pathlib, tempfile
    >>> from carousel.data import RunningText
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "play.txt")
    ...     _ = file.write_text("To be,\\n\\nor not", "utf-8")
    ...     list(RunningText(file)), list(RunningText(file, end_lines=True))
    (['To be,\\n', '\\n', 'or not'], ['To be,', '', 'or not'])
    """

    def __init__(self, path: str | Path, *, end_lines: bool = False) -> None:
        self.path, self.files = Path(path), check_files(path)
        self.end_lines = end_lines
        self.layout = "running-end" if end_lines else "running"

    def pieces(self) -> Iterator[Piece]:
        """Yield line after line, blank ones too; a line longer than `BLOCK` bytes comes in several pieces."""
        blank, number = True, 1
        for file, start, stop, first in self._ranges():
            number = first
            for piece in self._pieces(file, start, stop, first):
                number = piece.line
                blank = blank and (not piece.text or piece.text.isspace())
                if piece.text or piece.end:
                    yield piece
        if blank:
            raise _all_blank(self.path, number)

    def blocks(self, size: int = LARGE, share: float = 1.0) -> Iterator[Block]:
        """The same text in blocks of about `size` bytes, or a `share` of the blocks, evenly spaced."""
        blank, number = True, 1
        raws = chain.from_iterable(raw_blocks(*where, size, size) for where in self._ranges())
        for raw in spaced(raws, share):
            if raw.data is None:  # a line that should not be held at once
                for block in in_blocks(self._pieces(raw.path, raw.start, raw.stop, raw.number)):
                    blank = blank and all(not text or text.isspace() for text in block.texts())
                    yield block
                continue
            data = _checked(raw)
            number = raw.number + data.count(b"\n") - data.endswith(b"\n")
            blank = blank and (not data or data.decode().isspace())
            yield Block.of_lines(data, newlines=not self.end_lines, end=self.end_lines)
        if blank and share == 1.0:
            raise _all_blank(self.path, number)

    def _pieces(self, path: Path, start: int, stop: int, number: int) -> Iterator[Piece]:
        """The text of one file from byte `start`, in line `number`, to byte `stop`."""
        column = 0
        with open_bytes(path, start) as file:
            rest = b""
            while raw := rest + (read := file.readline(min(BLOCK, stop - start))):
                start += len(read)
                whole = read.endswith(b"\n") or start == stop
                cut = len(raw) if whole else _cut(raw)
                raw, rest = raw[:cut], raw[cut:]
                text = decode(raw, path, number, column)
                if whole and self.end_lines:
                    yield Piece(number, text.removesuffix("\n"), True)
                else:
                    yield Piece(number, text, False)
                number, column = (number + 1, 0) if whole else (number, column + len(text))

    def __iter__(self) -> Iterator[str]:
        return (piece.text for piece in self.pieces())

    def keys(self) -> Iterator[str]:
        return iter(self)

    def _ranges(self) -> Iterator[tuple[Path, int, int, int]]:
        """What to read of which files: a file, the bytes from and to, and the number of the line of the first."""
        part = self.part if isinstance(self.part, End) else None
        before = 0
        for file in self.files:
            size = size_of(file)
            cut = size if part is None else min(max(part.byte - before, 0), size)  # what follows is held out
            before += size
            if part is None or not part.held_out:
                start, stop, line = 0, cut, 1
            else:
                start, stop, line = cut, size, part.line if cut else 1
            if start < stop:
                yield file, start, stop, line

    def __repr__(self) -> str:
        return f"RunningText({str(self.path)!r}, end_lines={self.end_lines})"


def chunks(items: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield `items` in lists that reach `CHUNK` characters: much at once is fast, and memory stays constant.

    >>> from carousel.data.sources.lines import chunks
    >>> [len(chunk) for chunk in chunks(["line"] * 500_000, len)]
    [209716, 209716, 80568]
    """
    chunk: list[T] = []
    total = 0
    for item in items:
        chunk.append(item)
        total += size(item) + 1
        if total >= CHUNK:
            yield chunk
            chunk, total = [], 0
    if chunk:
        yield chunk


def in_blocks(pieces: Iterable[Piece]) -> Iterator[Block]:
    """Pieces of text, in blocks."""
    for group in chunks(pieces, lambda piece: len(piece.text)):
        yield Block.of([piece.text for piece in group], [piece.end for piece in group])


def blocks_of(texts: Source | Iterable[str], size: int = LARGE, share: float = 1.0) -> Iterator[Block]:
    """Texts in blocks, or a `share` of the blocks, evenly spaced; those of a file that is read so are larger."""
    if hasattr(texts, "blocks"):
        blocks: Iterator[Block] = texts.blocks(size, share)
        return blocks
    pieces = texts.pieces() if hasattr(texts, "pieces") else (Piece(0, text, False) for text in texts)
    return spaced(in_blocks(pieces), share)


def _checked(raw: Raw) -> bytes:
    """The lines of a block, with newlines for line ends; a DataError if it is not text."""
    data = raw.data or b""
    if raw.start == 0 and raw.number == 1:
        data = data.removeprefix(_BOM)
    try:
        valid = b"\0" not in data and (data.isascii() or bool(data.decode()))
    except UnicodeDecodeError:
        valid = False
    if not valid:
        for number, line in enumerate(data.split(b"\n"), raw.number):
            decode(line, raw.path, number)
    return data.replace(b"\r\n", b"\n") if b"\r" in data else data


def decode(raw: bytes, path: Path, number: int, column: int = 0) -> str:
    """`raw`, which begins after `column` characters of line `number`, as text; CRLF becomes a newline."""
    if number == 1 and column == 0:
        raw = raw.removeprefix(_BOM)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        at = column + len(raw[: error.start].decode("utf-8")) + 1
        problem = f"byte 0x{raw[error.start]:02x} at column {at} is not UTF-8"
        raise DataError(path, number, problem, _conversion(path)) from None
    if "\0" in text:
        at = column + text.index("\0") + 1
        raise DataError(path, number, f"zero byte at column {at}", "text has none: convert the file to UTF-8")
    return text[:-2] + "\n" if text.endswith("\r\n") else text


def _cut(raw: bytes) -> int:
    """Where to cut the beginning of a long line: before the last lone space, else between two characters.

    No kind of vocabulary has a token on both sides of a lone space.
    """
    at = raw.rfind(b" ", 1, -1)
    while at > 0:
        if not raw[at - 1 : at].isspace() and not raw[at + 1 : at + 2].isspace():
            return at
        at = raw.rfind(b" ", 1, at)
    at = len(raw) - 1
    while raw[at] & 0xC0 == 0x80 and at > len(raw) - 4:
        at -= 1
    return at


def _conversion(path: Path) -> str:
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except OSError:  # it came through a pipe
        head = b""
    encoding = next((name for bom, name in _OTHER_BOMS.items() if head.startswith(bom)), "ENCODING")
    return f"convert the file with iconv -f {encoding} -t utf-8"


def _near(path: Path) -> str:
    try:
        there = {entry.name: str(path.parent / entry.name) for entry in path.parent.iterdir()}
    except OSError:
        return f"there is no directory {path.parent} either; check the path"
    if (hint := did_you_mean(path.name, (), there, cutoff=0.8)) or not path.suffix:
        return hint or did_you_mean(path.name, (), there) or "check the path"
    stems = {Path(name).stem: place for name, place in there.items()}  # an extension in common makes no name alike
    return did_you_mean(path.stem, (), stems) or "check the path"


def _all_blank(path: Path, count: int) -> DataError:
    problem = "its only line is blank" if count == 1 else f"all {count} lines are blank"
    return DataError(path, None, problem, "give a file with text in it")
