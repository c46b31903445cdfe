"""The three kinds of vocabulary as tokenizers of the `tokenizers` library: how each splits, learns and joins text."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import Literal, get_args

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from ...errors import ArgumentError, DataError
from ...wording import counted

Kind = Literal["character", "word", "bpe"]

PAD, START, END, UNK = range(4)
SPECIAL = ("[PAD]", "[START]", "[END]", "[UNK]")
ALIASES = ("<unk>",)  # how corpora such as the Penn Treebank write [UNK]: as a word it is [UNK], not one of its own

LONG = 1 << 13  # characters: longer text is tokenized in parts, because the library holds 200 bytes per character
# Places that no token spans, so that the parts give the same ids as the whole.
_CUT: dict[Kind, re.Pattern[str]] = {
    "word": re.compile(r"(?=[ \t\n\u3000])"),
    "bpe": re.compile(r"(?<=\S)(?= \S)|(?<=\n)|(?<=[^\W_])(?=[^\w\s])"),
}
_SPACE = re.compile("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
# Letters, or other characters, without end. Learning BPE takes time with the square of such a run's length.
_ENDLESS = re.compile(r"(?<![^\W_])[^\W_]{1025}|(?<![\W_])[\W_]{1025}")


def blank(kind: Kind) -> Tokenizer:
    """A tokenizer of this kind that knows no token yet."""
    if kind == "character":
        tokenizer = Tokenizer(models.WordLevel(unk_token=SPECIAL[UNK]))
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(?m)."), "isolated")  # (?m): newlines too
        tokenizer.decoder = decoders.Fuse()
    elif kind == "word":
        tokenizer = Tokenizer(models.WordLevel(unk_token=SPECIAL[UNK]))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    elif kind == "bpe":
        tokenizer = Tokenizer(models.BPE())
        # A newline is always a token of its own, so that lines read one by one give what the whole text gives.
        newline = pre_tokenizers.Split("\n", "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([newline, pre_tokenizers.ByteLevel(add_prefix_space=False)])
        tokenizer.decoder = decoders.ByteLevel()
    else:
        raise unknown_kind(kind)
    return tokenizer


def kind_of(tokenizer: Tokenizer) -> Kind:
    """Which kind a tokenizer is, by how it splits text; a ValueError if it is none of ours."""
    for token, i in zip(SPECIAL, range(4), strict=True):
        if tokenizer.token_to_id(token) != i:
            raise ArgumentError(f"{token} must have id {i}, not {tokenizer.token_to_id(token)}")
    for kind in get_args(Kind):
        if _split(blank(kind)) == _split(tokenizer):
            return kind
    raise ArgumentError("it splits text in a way that is neither characters, words nor byte-level BPE")


def _split(tokenizer: Tokenizer) -> tuple[type, bytes]:
    return type(tokenizer.model), tokenizer.pre_tokenizer.__getstate__() if tokenizer.pre_tokenizer else b""


def split_words(text: bytes) -> list[str]:
    """The words of UTF-8 text: what stands between characters that Unicode calls white space.

    >>> split_words("to be\u3000or".encode())
    ['to', 'be', 'or']
    """
    if text.isascii():
        return [word.decode() for word in text.split()]
    return [word for word in _SPACE.split(text.decode()) if word]


def train_bpe(texts: Iterable[str], size: int, min_frequency: int) -> Tokenizer:
    """A byte-level BPE tokenizer of at most `size` tokens: special ones, the 256 bytes, then merges."""
    tokenizer = blank("bpe")
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    pieces = chain.from_iterable(parts(text, "bpe") for text in texts)
    texts = _in_context(_without_endless(pieces))
    in_thread(lambda: tokenizer.train_from_iterator(texts, trainer))
    _return_freed_memory()
    return tokenizer


def _return_freed_memory() -> None:
    """Give memory that was freed back to the system where the C library keeps it (glibc).

    Learning BPE takes some 25 bytes for each byte of text, in pieces so small that none of it comes back by itself.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def in_thread(work: Callable[[], object]) -> None:
    """Do what the library does not interrupt in a thread of its own, so that Ctrl-C is answered at once."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
    if errors:
        raise errors[0]


def _in_context(items: Iterator[str]) -> Iterator[str]:
    """`items`, produced in this context, which has the progress that is shown, whichever thread asks for them."""
    context, end = copy_context(), object()
    return iter(lambda: context.run(next, items, end), end)  # type: ignore[arg-type, return-value]


def parts(text: str, kind: Kind) -> list[str]:
    """`text` in parts of about LONG characters, which have the same tokens as the whole.

    A word is never cut. BPE text without any place to cut (no space, no punctuation) is cut at twice that.

    >>> from carousel.data.text.tokenizers import parts
    >>> [len(part) for part in parts("to be or not " * 1000, "word")]
    [8192, 4808]
    """
    pieces, start = [], 0
    while len(text) - start > LONG:
        limit = start + 2 * LONG if kind == "bpe" else len(text)
        place = _CUT[kind].search(text, start + LONG, limit)
        end = min(place.start() if place else limit, len(text))
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]] if start < len(text) or not pieces else pieces


def _without_endless(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        if _ENDLESS.search(text):
            yield from (text[i : i + 1024] for i in range(0, len(text), 1024))
        else:
            yield text


def unknown_kind(kind: object) -> ArgumentError:
    """The complaint about a kind that is none."""
    return ArgumentError(f"kind must be one of {', '.join(get_args(Kind))}; got {kind!r}")


def nothing_known(path: Path, tokens: int) -> DataError:
    """The complaint about a file of which a vocabulary has no token."""
    problem = f"none of its {counted(tokens, 'token')} is in the vocabulary"
    return DataError(path, None, problem, "give text of the same language and kind as the training text")
