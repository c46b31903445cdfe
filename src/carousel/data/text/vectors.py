"""Word vectors from files: word2vec (text and binary), GloVe, fastText's .vec, safetensors.

A file is read once into a memory-mapped store in the cache; after that, words are looked up and their rows fetched as
they are needed, whatever the size of the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np

from ...errors import DataError, did_you_mean
from ...parsing import parse_json
from ...wording import counted, either
from ..sources.lines import check_file, read_lines
from ..stores.cache import cached
from ..stores.ragged import Ragged, RaggedWriter, read
from .tokenizers import SPECIAL

FORMAT = 1  # of the store; another number invalidates every one
CHUNK = 4096  # words that are written at once
FILE = "vectors.txt"  # in the folder of vectors that are known by name
_FASTTEXT = 793712314  # the first number of fastText's own .bin models


class Vectors(NamedTuple):
    """The vectors of the words of a vocabulary."""

    values: np.ndarray  # (V, E) float32; zero where there is none
    known: np.ndarray  # (V,) bool: whether the file has the word


class WordVectors:
    """All words of a file with their vectors, memory-mapped. Made by `open_vectors`."""

    embedded = False  # whether a run directory keeps a copy

    def __init__(self, path: Path, store: Path, columns: dict[str, Ragged], info: dict[str, Any]) -> None:
        self.path = path  # where they came from
        self.store = store
        self.size: int = info["size"]
        self.digest: str = info["digest"]  # of the words and their vectors, whatever the format they came in
        self.values = columns["vectors"].values.reshape(-1, self.size)  # (N, E) float32
        self._words, self._keys, self._order = columns["words"], columns["keys"].values, columns["order"].values

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, words: Sequence[str]) -> np.ndarray:
        """The row of each word in `values`, (words,) int64: that of its own spelling, else in lower case, else -1."""
        rows = self._find(words)
        absent = np.flatnonzero(rows < 0).tolist()
        lowered = [words[i].lower() for i in absent]
        second = [i for i, low in enumerate(lowered) if low != words[absent[i]]]
        if second:
            rows[[absent[i] for i in second]] = self._find([lowered[i] for i in second])
        return rows

    def word(self, row: int) -> str:
        """The word of a row."""
        return self._words[row].tobytes().decode()

    def of(self, words: Sequence[str]) -> Vectors:
        """The vectors of the words of a vocabulary, its special tokens first."""
        rows = self.rows(words)
        rows[: len(SPECIAL)] = -1
        known = rows >= 0
        if not known.any():
            raise DataError(self.path, None, "it has no word of the training data", "give vectors for this language")
        values = np.zeros((len(words), self.size), np.float32)
        values[known] = self.values[rows[known]]
        return Vectors(values, known)

    def _find(self, words: Sequence[str]) -> np.ndarray:
        keys = np.array([_key(word.encode()) for word in words], np.uint64)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self) - 1)
        rows = np.where(self._keys[at] == keys, self._order[at], -1).astype(np.int64)
        for i in np.flatnonzero(rows >= 0).tolist():  # two words may have the same key
            if self._words[rows[i]].tobytes() != words[i].encode():
                rows[i] = -1
        return rows

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # it cannot change

    def __reduce__(self) -> tuple[Any, ...]:
        return read_store, (self.store, self.path)  # another process maps the file again

    def __repr__(self) -> str:
        return f"WordVectors({self.path.name!r}, {len(self):,} words, {self.size} numbers each)"


def open_vectors(path: str | Path, cache: str | Path) -> WordVectors:
    """The vectors in a file, from the store in `cache` if there is one, else read into it.

    If a word stands there twice, the first counts.

    >>> import pathlib, tempfile
    >>> from carousel.data import Vocabulary
    >>> from carousel.data.text.vectors import open_vectors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "vectors.txt")
    ...     _ = file.write_text("3 2\\nthe 1 0\\nsea 0 1\\nsky 1 1\\n")
    ...     vectors = open_vectors(file, folder).of(Vocabulary.from_tokens(["The", "sky", "is"], "word").tokens)
    >>> vectors.values[4:].tolist(), vectors.known[4:].tolist()
    ([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]], [True, True, False])
    """
    path = check_file(path)
    stat = path.stat()  # its content is not hashed each time: it may be gigabytes, and a run names the digest it needs
    expected = {"format": FORMAT, "file": str(path.resolve()), "bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    slot = ["vectors", str(path.resolve())]
    kept = cached(cache, path.stem, slot, expected, lambda to: _build(path, to, expected), check=False)
    return WordVectors(path, kept.path, kept.columns, kept.info)


def read_store(store: Path, path: Path | None = None) -> WordVectors:
    """The vectors in a store that `open_vectors` made, or a copy of it; raises `Damaged` if it is not one."""
    return WordVectors(path or store, store, *read(store, check=False))


def width_of(path: Path) -> int | None:
    """How many numbers a vector in the file has, from its beginning alone; None if there is no telling."""
    try:
        return len(next(_reader(check_file(path))(path))[2])
    except (DataError, StopIteration):
        return None  # whoever reads the file says what is wrong with it


Entries = Iterator[tuple[int | None, str, np.ndarray]]  # a line or None, a word, its vector (E,)


def _build(path: Path, target: Path, expected: dict[str, Any]) -> None:
    digest, seen, keys, total, size = blake2b(digest_size=16), set(), [], 0, 0
    dtypes = {"vectors": np.float32, "words": np.uint8, "keys": np.uint64, "order": np.int64}
    with RaggedWriter(target, dtypes) as writer:
        words: list[bytes] = []
        vectors: list[np.ndarray] = []

        def flush() -> None:
            values, spelled = np.concatenate(vectors), b"".join(words)
            lengths = np.array([len(word) for word in words], np.int64)
            digest.update(values.tobytes() + spelled + lengths.tobytes())
            writer.append("vectors", values, np.full(len(words), size))
            writer.append("words", np.frombuffer(spelled, np.uint8), lengths)
            words.clear()
            vectors.clear()

        for line, word, vector in _reader(path)(path):
            spelling = word.encode()
            key = _key(spelling)
            if key in seen:
                continue
            if not np.isfinite(vector).all():
                raise DataError(path, line, f"the vector of {word[:50]!r} is not finite", "fix or remove the line")
            size = len(vector)
            seen.add(key)
            keys.append(key)
            words.append(spelling)
            vectors.append(vector)
            total += 1
            if len(words) == CHUNK:
                flush()
        if words:
            flush()
        if not total:
            raise DataError(path, None, "there are no vectors in it", "each line is a word and its numbers")
        every = np.array(keys, np.uint64)
        order = np.argsort(every)
        writer.append("keys", every[order], np.ones(total, np.int64))
        writer.append("order", order, np.ones(total, np.int64))
        writer.finish({**expected, "size": size, "digest": digest.hexdigest()})


def _key(word: bytes) -> int:
    return int.from_bytes(blake2b(word, digest_size=8).digest(), "little")


def _reader(path: Path) -> Callable[[Path], Entries]:
    """How the file is to be read."""
    if path.suffix == ".safetensors":
        return _read_safetensors
    if path.suffix == ".bin":
        return _read_binary
    return _read_text


def _read_text(path: Path) -> Entries:
    """A word and its numbers on each line; word2vec and fastText begin with how many words and numbers there are."""
    width = 0
    for number, line in read_lines(path):
        line = line.rstrip()
        if not width:
            parts = line.split(" ")
            if number == 1 and len(parts) == 2 and all(part.isdecimal() for part in parts):
                continue
            width = len(parts) - 1
        word, *rest = line.rsplit(" ", width)
        if len(rest) != width or not word or not width:
            problem = f"{counted(len(line.split(' ')) - 1, 'number')}, where the first word has {width}"
            raise DataError(path, number, problem, "each line is a word and its numbers, separated by single spaces")
        yield number, word, _numbers(path, number, word, line[len(word) + 1 :], width)


def _numbers(path: Path, number: int, word: str, written: str, width: int) -> np.ndarray:
    try:
        vector = np.fromstring(written, np.float32, sep=" ")
    except (ValueError, DeprecationWarning):  # by the version of numpy
        vector = np.zeros(0, np.float32)
    if len(vector) != width:
        raise DataError(path, number, f"a value after {word[:50]!r} is not a number", "fix the line")
    return vector


def _read_binary(path: Path) -> Entries:
    """The binary format of word2vec: `words numbers` on a line, then each word, a space, and its float32 numbers."""
    with path.open("rb") as file:
        head = file.readline(100)
        if int.from_bytes(head[:4], "little") == _FASTTEXT:
            raise DataError(path, None, "a fastText model, not vectors", "give its .vec file")
        parts = head.split()
        if len(parts) != 2 or not all(part.isdigit() for part in parts):
            raise DataError(path, None, "not in the binary format of word2vec", "give a text file of vectors as .txt")
        total, size = map(int, parts)
        for entry in range(1, total + 1):
            word = _word_of(file)
            data = file.read(4 * size)
            if not word or len(data) != 4 * size or not size:
                problem = f"it ends in word {entry:,} of {total:,}"
                raise DataError(path, None, problem, "fetch the file again")
            yield None, word.decode("utf-8", "replace"), np.frombuffer(data, np.float32)


def _word_of(file: BinaryIO) -> bytes:
    """The next word of a binary file, up to its space; a line feed after the vector before it is skipped."""
    word = bytearray()
    while (byte := file.read(1)) not in (b"", b" ") and len(word) < 10_000:
        if byte != b"\n":
            word += byte
    return bytes(word)


def _read_safetensors(path: Path) -> Entries:
    """One matrix (words, numbers); its words in the metadata `words` (a JSON list), or in a .txt file beside it."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            tensors = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            matrices = [part for part in tensors.values() if len(part.get_shape()) == 2]
            listed = (file.metadata() or {}).get("words")
            if len(matrices) != 1:
                problem = f"{counted(len(matrices), 'matrix', 'matrices')} in it, where one is expected"
                raise DataError(path, None, problem, "keep the matrix of word vectors alone")
            beside = path.with_suffix(".txt")
            words = parse_json(listed) if listed else [line for _, line in read_lines(beside)]
            rows = matrices[0].get_shape()[0]
            if len(words) != rows:
                raise DataError(path, None, f"{rows:,} vectors, but {len(words):,} words", "give a word for each")
            for start in range(0, rows, CHUNK):
                part = matrices[0][start : min(rows, start + CHUNK)].astype(np.float32)
                for word, vector in zip(words[start : start + CHUNK], part, strict=True):
                    yield None, word, vector
    except DataError:
        raise
    except (SafetensorError, ValueError, TypeError) as error:
        raise DataError(path, None, f"not a safetensors file of vectors ({error})", "fetch the file again") from error


FETCHED = ("glove",)  # the vectors that `carousel data get` fetches


def vectors_folder() -> Path:
    """Where `carousel data get` puts word vectors, which are then known by name."""
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "carousel" / "vectors"


def find_vectors(given: str | Path) -> Path:
    """The file that is meant: one of this path or, if there is none, the vectors that were fetched by this name."""
    given = Path(given)
    if given.exists() or len(given.parts) > 1 or given.suffix:
        return given
    kept = vectors_folder() / given / FILE
    if not kept.exists():
        folder = vectors_folder()
        installed = {path.parent.name for path in folder.glob(f"*/{FILE}")}
        remedy = f"carousel data get {given}"
        if str(given) not in FETCHED:
            known = sorted({*installed, *FETCHED})
            remedy = did_you_mean(str(given), known) or f"give a file, or {either(known)}"
        raise DataError(given, None, "no such file, and no vectors of this name", remedy)
    return kept
