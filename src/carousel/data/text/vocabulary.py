"""Text to integers and back: characters, words or BPE, with `[PAD] [START] [END] [UNK]` as 0 to 3.

A vocabulary is a tokenizer of the `tokenizers` library and is kept in its JSON form, so other tools can read it.
Characters alone are encoded by a table instead, which is ten times faster and gives the same ids.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer, models
from tokenizers.decoders import DecodeStream

from ...errors import ArgumentError, DataError, check_count
from ...files import write_text
from ...wording import setting
from ..sources.blocks import Block, encodable
from ..sources.lines import chunks, read_lines
from .distinct import BULK, BulkEncoder, WordEncoder, train_words
from .tokenizers import (
    ALIASES,
    SPECIAL,
    UNK,
    Kind,
    blank,
    kind_of,
    parts,
    split_words,
    train_bpe,
    unknown_kind,
)

if TYPE_CHECKING:
    from .vectors import WordVectors

BPE_SIZE = 8000  # if no size is asked for


class Vocabulary:
    """The tokens of a kind of text and their ids. Made by `train`, `from_tokens`, `from_file` or `load`.

    >>> from carousel.data import Vocabulary
    >>> vocabulary = Vocabulary.train(["to be or not", "to be"], "word")
    >>> vocabulary
    Vocabulary(word, 8 tokens: 'be' 'to' 'not' 'or')
    >>> vocabulary.encode("to be here").tolist()
    [5, 4, 3]
    >>> vocabulary.decode([1, 5, 4, 3, 2])
    'to be [UNK]'
    """

    beyond: WordVectors | None = None  # words outside of the vocabulary that have a vector; their ids follow its own

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.kind = kind_of(tokenizer)
        self.tokenizer = tokenizer
        self.tokenizer.encode_special_tokens = True  # "[PAD]" in a text is text

    # ---------------------------------------------------------------- making one

    @classmethod
    def train(
        cls, texts: Iterable[str], kind: Kind = "character", *, size: int | None = None, min_frequency: int = 1,
    ) -> Vocabulary:  # fmt: skip
        """Learn the vocabulary of `texts`, which stream past: only counts are held.

        `size` caps the number of tokens, the four special ones included (BPE: 8000 unless given); the most frequent
        stay, and of equally frequent ones those that sort first. `min_frequency` is how often a character or word
        must occur, or for BPE a pair that is merged. `<unk>` as a word counts as `[UNK]`.

        >>> from carousel.data import Vocabulary
        >>> Vocabulary.train(["abracadabra"], min_frequency=2)
        Vocabulary(character, 7 tokens: 'a' 'b' 'r')
        """
        check_count("size", size, least=len(SPECIAL) + 1, optional=True)
        if kind == "bpe" and size is not None and size < len(SPECIAL) + 256:
            least = f"{len(SPECIAL) + 256} tokens: 256 bytes and {len(SPECIAL)} special ones"
            raise ArgumentError(f"a vocabulary of bpe has at least {least}; got a size of {size}")
        check_count("min_frequency", min_frequency)
        if kind == "bpe":
            return cls(train_bpe(texts, size or BPE_SIZE, min_frequency))
        if kind == "word":
            tokens = train_words(texts, min_frequency, None if size is None else size - len(SPECIAL))
        elif kind == "character":
            count: Counter[str] = Counter()
            for text in texts:
                count.update(text)
            tokens = sorted((c for c in count if count[c] >= min_frequency), key=lambda c: (-count[c], c))
        else:
            raise unknown_kind(kind)
        if not tokens:
            file = getattr(texts, "path", None)
            problem = f"no {kind} occurs {min_frequency} times or more, so the vocabulary is empty"
            raise DataError(file, None, problem, f"lower {setting('min_frequency')}")
        return cls.from_tokens(tokens if size is None else tokens[: size - len(SPECIAL)], kind)

    @classmethod
    def from_tokens(cls, tokens: Iterable[str], kind: Kind) -> Vocabulary:
        """The vocabulary of these characters or words, which get the ids 4, 5, 6, … in this order.

        >>> from carousel.data import Vocabulary
        >>> Vocabulary.from_tokens("ab ", "character").encode("a b?").tolist()
        [4, 6, 5, 3]
        """
        if kind == "bpe":
            raise ArgumentError("tokens alone do not say how BPE merges; train a vocabulary, or load a tokenizer.json")
        ids: dict[str, int] = {}
        for token in (*SPECIAL, *tokens):
            if token in ids:
                raise ArgumentError(f"tokens must be different from each other and from {SPECIAL}; got {token!r} again")
            if kind == "character" and len(token) != 1 and len(ids) >= len(SPECIAL):
                raise ArgumentError(f"tokens must be single characters, got {token!r}")
            ids[token] = len(ids)
        tokenizer = blank(kind)
        tokenizer.model = models.WordLevel(ids, unk_token=SPECIAL[UNK])
        tokenizer.add_special_tokens(list(SPECIAL))
        return cls(tokenizer)

    @classmethod
    def from_file(cls, path: str | Path, kind: Kind) -> Vocabulary:
        r"""The vocabulary in a file with one token per line; `\n` is the newline character.

        The special tokens and `<unk>` may be among them, anywhere; they keep the ids 0 to 3.

        >>> import pathlib, tempfile
        >>> from carousel.data import Vocabulary
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "words.txt")
        ...     _ = file.write_text("<unk>\nthe\nof\n", "utf-8")
        ...     Vocabulary.from_file(file, "word")
        Vocabulary(word, 6 tokens: 'the' 'of')
        """
        if kind == "bpe":
            raise DataError(path, None, "a list of tokens does not say how BPE merges", "give a tokenizer.json")
        lines: dict[str, int] = {}
        for number, token in read_lines(path):
            token = "\n" if kind == "character" and token == r"\n" else token
            if not token or token in SPECIAL or token in ALIASES:
                continue
            if token in lines:
                raise DataError(path, number, f"{token!r} is already on line {lines[token]}", "remove one of them")
            if kind == "character" and len(token) > 1:
                raise DataError(path, number, f"{token!r} is not one character", "put one per line, or use words")
            if kind == "word" and token.split() != [token]:
                raise DataError(
                    path, number, f"{token!r} has a space in it, so it is not a word", "put one word on each line"
                )
            lines[token] = number
        if not lines:
            raise DataError(path, None, f"there is no {kind} in it, so the vocabulary is empty", "put one per line")
        return cls.from_tokens(lines, kind)

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """The vocabulary that `save` wrote to `path`.

        >>> import pathlib, tempfile
        >>> from carousel.data import Vocabulary
        >>> vocabulary = Vocabulary.train(["to be or not to be"], "word")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "tokenizer.json")
        ...     vocabulary.save(file)
        ...     Vocabulary.load(file) == vocabulary
        True
        """
        text = "\n".join(line for _, line in read_lines(path))
        remedy = "give the tokenizer.json of a run, or train a vocabulary"
        try:
            tokenizer = Tokenizer.from_str(text)
        except Exception as error:  # the library raises nothing narrower
            raise DataError(path, None, f"is not a tokenizer.json ({error})", remedy) from None
        try:
            return cls(tokenizer)
        except ValueError as error:
            raise DataError(path, None, f"is not a vocabulary for Carousel: {error}", remedy) from None

    def save(self, path: str | Path) -> None:
        """Write the vocabulary as `tokenizer.json`; the file appears whole or not at all.

        >>> import json, pathlib, tempfile
        >>> from carousel.data import Vocabulary
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "tokenizer.json")
        ...     Vocabulary.train(["abba"]).save(file)
        ...     json.loads(file.read_text("utf-8"))["model"]["vocab"]
        {'[PAD]': 0, '[START]': 1, '[END]': 2, '[UNK]': 3, 'a': 4, 'b': 5}
        """
        write_text(path, self.tokenizer.to_str(pretty=True))

    # ---------------------------------------------------------------- using it

    def encode(self, text: str) -> np.ndarray:
        """The ids of `text`, (n,) int64. Text gives no `[PAD]`, `[START]` or `[END]`, whatever it says.

        >>> from carousel.data import Vocabulary
        >>> Vocabulary.train(["abba"]).encode("baab").tolist()
        [5, 4, 4, 5]
        """
        return self.encode_many([text])[0].astype(np.int64)

    def one_hot(self, text: str) -> np.ndarray:
        """`text` as one-hot vectors, (n, V) int64: a row for each token, all zeros but for a 1 at its id.

        >>> from carousel.data import Vocabulary
        >>> Vocabulary.train(["i we go school"], "word").one_hot("i go school").argmax(1).tolist()
        [5, 4, 6]
        """
        ids = self.encode(text)
        vectors = np.zeros((len(ids), len(self)), np.int64)
        vectors[np.arange(len(ids)), ids] = 1
        return vectors

    def encode_many(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The ids of all texts end to end, (n,) uint32, and how many each text has, (len(texts),) int64.

        >>> from carousel.data import Vocabulary
        >>> values, lengths = Vocabulary.train(["abba"]).encode_many(["ba", "", "b"])
        >>> values.tolist(), lengths.tolist()
        ([5, 4, 5], [2, 0, 1])
        """
        if self.kind == "character":
            codes = "".join(texts).encode("utf-32-le", "surrogatepass")
            values = self._table[np.frombuffer(codes, np.uint32)]
            return values, np.fromiter(map(len, texts), np.int64, len(texts))
        if sum(map(len, texts)) >= BULK:
            return self.encode_block(Block.of(texts))
        return self._encode([encodable(text) for text in texts])

    def encode_block(self, block: Block) -> tuple[np.ndarray, np.ndarray]:
        """`encode_many` of the texts of a block."""
        if self.kind == "character":
            return self._encode_characters(block)
        if len(block.data) < BULK:
            return self._encode(block.texts())
        if self.kind == "bpe":
            return self._bpe_encoder(block)
        few = len(block.data) < 8 * len(self)  # then a table of the vocabulary costs more than it saves
        return self._encode_words(block.texts()) if few else self._word_encoder(block)

    def _encode_characters(self, block: Block) -> tuple[np.ndarray, np.ndarray]:
        values = self._table[np.frombuffer(block.data.tobytes().decode().encode("utf-32-le"), np.uint32)]
        before = np.concatenate([[0], np.cumsum((block.data & 0xC0) != 0x80, dtype=np.int32)])
        return values, np.diff(before[block.bounds]).astype(np.int64)

    def _encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """`encode_many` of words or BPE by the tokenizer itself."""
        pieces = [parts(text, self.kind) for text in texts]
        ids: list[list[int]] = []
        for group in chunks(chain.from_iterable(pieces), len):
            ids += [encoding.ids for encoding in self.tokenizer.encode_batch_fast(group, add_special_tokens=False)]
        values = np.fromiter(chain.from_iterable(ids), np.uint32)
        np.putmask(values, values < UNK, UNK)  # the word "[PAD]"
        owner = np.repeat(np.arange(len(texts)), list(map(len, pieces)))
        lengths = np.bincount(owner, list(map(len, ids)), minlength=len(texts))
        return values, lengths.astype(np.int64)

    @cached_property
    def _word_encoder(self) -> WordEncoder:
        return WordEncoder(self._word_table)

    @cached_property
    def _bpe_encoder(self) -> BulkEncoder:
        return BulkEncoder(lambda pieces: self._encode([piece.decode() for piece in pieces]))

    def _encode_words(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        words = [split_words(text.encode()) for text in texts]
        known = self._word_table
        values = np.fromiter((known.get(word, UNK) for word in chain.from_iterable(words)), np.uint32)
        return values, np.fromiter(map(len, words), np.int64, len(words))

    def split(self, text: str) -> list[str]:
        """The tokens of `text` as it has them, whether or not they are in the vocabulary; none of BPE, which knows all.

        >>> from carousel.data import Vocabulary
        >>> Vocabulary.train(["to be"], "word").split("to be here")
        ['to', 'be', 'here']
        """
        if self.kind == "character":
            return list(text)
        return [] if self.kind == "bpe" else split_words(encodable(text).encode())

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, a list, array or tensor; `[PAD]`, `[START]` and `[END]` are left out, `[UNK]` is shown.

        >>> from carousel.data import Vocabulary
        >>> Vocabulary.train(["abba"]).decode(torch.tensor([1, 4, 5, 3, 2, 0]))
        'ab[UNK]'
        """
        return self.tokenizer.decode([i for i in map(self._checked, ids) if i >= UNK], skip_special_tokens=False)

    def decode_stream(self, ids: Iterable[int]) -> Iterator[str]:
        """Yield the text of `ids` as they come: as much as is certain after each id, often one token's text.

        >>> from carousel.data import Vocabulary
        >>> list(Vocabulary.train(["to be"], "word").decode_stream(iter([1, 5, 4, 2])))
        ['to', ' be']
        """
        stream = DecodeStream(skip_special_tokens=False)
        read, yielded = [], 0
        for i in map(self._checked, ids):
            if i >= UNK:
                read.append(i)
                if text := stream.step(self.tokenizer, i):
                    yielded += len(text)
                    yield text
        if rest := self.decode(read)[yielded:]:  # what the stream held back: a character that seemed to be half there
            yield rest

    def count_unknown(self, texts: Iterable[str]) -> tuple[int, int]:
        """How many tokens of `texts` are `[UNK]`, and how many there are.

        >>> from carousel.data import Vocabulary
        >>> Vocabulary.train(["abba"]).count_unknown(["abc", "d"])
        (2, 4)
        """
        unknown = total = 0
        for chunk in chunks(texts, len):
            values, _ = self.encode_many(chunk)
            unknown += int(np.count_nonzero(values == UNK))
            total += len(values)
        return unknown, total

    def unknown_rate(self, texts: Iterable[str]) -> float:
        """The share of `[UNK]` among the tokens of `texts`, from 0 to 1.

        >>> from carousel.data import Vocabulary
        >>> Vocabulary.train(["abba"]).unknown_rate(["abc", "d"])
        0.5
        """
        unknown, total = self.count_unknown(texts)
        return unknown / total if total else 0.0

    def id(self, token: str) -> int:
        """The id of a token; `[UNK]`'s if there is no such token.

        >>> from carousel.data import Vocabulary
        >>> vocabulary = Vocabulary.train(["abba"])
        >>> vocabulary.id("b"), vocabulary.id("c"), vocabulary.id("[END]")
        (5, 3, 2)
        """
        number = self.tokenizer.token_to_id(token)
        return UNK if number is None else number

    def token(self, id: int) -> str:
        """The token with this id, as the tokenizer writes it (BPE writes bytes as letters; `decode` gives text).

        >>> from carousel.data import Vocabulary
        >>> Vocabulary.train(["abba"]).token(5)
        'b'
        """
        if self.beyond is not None and id >= len(self):
            return self.beyond.word(id - len(self))
        return self.tokenizer.id_to_token(self._checked(id)) or ""

    def word_ids(self, words: Sequence[str], lower: bool = False) -> np.ndarray:
        """The ids of whole words, (words,) int64; with `lower`, the vocabulary is of words in lower case.

        A word outside of the vocabulary has the id of its vector `beyond` it, if there is one, else `[UNK]`.

        >>> from carousel.data import Vocabulary
        >>> Vocabulary.train(["to be"], "word").word_ids(["To", "be"], lower=True).tolist()
        [5, 4]
        """
        known = self._word_table
        ids = np.fromiter((known.get(w.lower() if lower else w, UNK) for w in words), np.int64, len(words))
        if self.beyond is not None:
            places = np.flatnonzero(ids == UNK).tolist()
            others = sorted({words[i] for i in places})
            rows = dict(zip(others, self.beyond.rows(others).tolist(), strict=True))
            ids[places] = [UNK if rows[words[i]] < 0 else len(self) + rows[words[i]] for i in places]
        return ids

    @cached_property
    def _word_table(self) -> dict[str, int]:
        return {word: i for word, i in self.tokenizer.get_vocab().items() if i > UNK}

    @property
    def tokens(self) -> list[str]:
        """Every token in the order of its id, the special ones first.

        >>> from carousel.data import Vocabulary
        >>> Vocabulary.train(["abba"]).tokens
        ['[PAD]', '[START]', '[END]', '[UNK]', 'a', 'b']
        """
        return [self.token(i) for i in range(len(self))]

    @property
    def fingerprint(self) -> str:
        """A hash of everything the ids depend on; equal vocabularies have equal ones."""
        return self._digest if self.beyond is None else f"{self._digest} {self.beyond.digest}"

    @cached_property
    def _digest(self) -> str:
        return hashlib.blake2b(self.tokenizer.to_str().encode(), digest_size=16).hexdigest()

    @cached_property
    def _table(self) -> np.ndarray:
        """The id of every code point, (0x110000,) uint32."""
        table = np.full(0x110000, UNK, np.uint32)
        ids = self.tokenizer.get_vocab()
        codes = {ord(token): i for token, i in ids.items() if i > UNK}
        table[list(codes)] = list(codes.values())
        return table

    def _checked(self, id: Any) -> int:
        id = int(id)
        if not 0 <= id < len(self):
            raise ArgumentError(f"there is no token with id {id}; the vocabulary's ids are 0 to {len(self) - 1}")
        return id

    @cached_property
    def _size(self) -> int:
        return self.tokenizer.get_vocab_size()

    def __len__(self) -> int:
        return self._size

    def __contains__(self, token: object) -> bool:
        return isinstance(token, str) and self.tokenizer.token_to_id(token) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.tokenizer.to_str(),)

    def __repr__(self) -> str:
        first = range(len(SPECIAL), min(len(self), len(SPECIAL) + 6))
        if self.kind == "bpe":  # the merged ones are at the end; the bytes before them tell nothing
            first = range(max(len(SPECIAL), len(self) - 6), len(self))
        shown = " ".join(repr(self.decode([i])) for i in first)
        return f"Vocabulary({self.kind}, {len(self)} tokens: {shown}{' …' if len(self) > len(SPECIAL) + 6 else ''})"


def _restore(text: str) -> Vocabulary:
    return Vocabulary(Tokenizer.from_str(text))


def texts_of(vocabulary: Vocabulary, ids: Any, lengths: Any) -> tuple[tuple[str, ...], ...]:
    """The tokens of each sequence, by their ids (T, B) and lengths (B,), as a reader knows them.

    Of BPE, a token is the text of its bytes, with ␣ for a space at the beginning; the bytes of a part of a character
    stay as the tokenizer writes them.

    >>> vocabulary = Vocabulary.train(["the rat", "the rat"], "bpe")
    >>> ids = vocabulary.encode("the rat")
    >>> texts_of(vocabulary, ids[:, None], np.array([len(ids)]))
    (('the', '␣rat'),)
    """
    columns = zip(ids.T.tolist(), lengths.tolist(), strict=True)
    return tuple(tuple(_shown(vocabulary, k) for k in column[:length]) for column, length in columns)


def mark_unknown(
    tokens: Iterable[Sequence[str]], surface_forms: Iterable[Sequence[str]]
) -> tuple[tuple[str, ...], ...]:
    """The tokens of sequences, an unknown one as the text has it, with `[UNK]` after it.

    `surface_forms` are the tokens as the texts have them; they may be in fewer, longer sequences, and may be missing.

    >>> mark_unknown([("a", "[UNK]"), ("[UNK]",)], [["a", "quick", "fox"]])
    (('a', 'quick [UNK]'), ('fox [UNK]',))
    """
    forms, unknown = chain.from_iterable(surface_forms), SPECIAL[UNK]

    def mark(token: str) -> str:
        form = next(forms, "")
        return f"{form} {unknown}" if form and token == unknown else token

    return tuple(tuple(map(mark, sequence)) for sequence in tokens)


def _shown(vocabulary: Vocabulary, token: int) -> str:
    if vocabulary.kind != "bpe" or token <= UNK:
        return vocabulary.token(token)
    text = vocabulary.decode([token])
    return vocabulary.token(token) if "\ufffd" in text else re.sub("^ ", "␣", text)
