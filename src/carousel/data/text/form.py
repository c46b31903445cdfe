"""Raw text and the form that a model was trained on: case, the split between words and punctuation, and the way back.

Training text comes in one of two forms. Tokenized text, which has spaces around punctuation, is used as it is, and what
is usual in it is learned: whether all of it is in lower case, whether contractions are split (do n't), which brackets,
quotes and other marks occur, and which words have a mark in them (Mr., 10:30). Raw text that is later given to the
model is brought to that form; text that is tokenized already is not touched. Raw training text is split for models that
read words:

    addresses, @names and #tags, numbers (3.5, 10:30), initials (U.S., e.g.) and words with . ' & / - inside stay whole;
    every other mark is a token, and so is a run of dots, of dashes, or of ! and ?.

The form is learned once, from the beginning of the training text, and kept in the run directory.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property, lru_cache
from itertools import accumulate, chain, islice, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ...errors import DataError
from ...files import write_json
from ...parsing import parse_json

FILE = "text_form.json"  # in a run directory
SAMPLE = 1 << 22  # characters of the training text that are looked at
ENOUGH = 1000  # letters without which nothing is concluded from what does not occur
RARE = 0.1  # attached marks per text that are still no sign of raw text: abbreviations at the end of a line
OFTEN = 10  # occurrences of a mark after which its spacing is believed
MOST_WORDS = 50_000  # words with marks in them that are kept
_ALONE = frozenset([*',.!?;:"()[]', "``", "''", "-lrb-", "-rrb-", "-LRB-", "-RRB-", "&quot;", "...", "--"])
_BRACKETS = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
_PLAIN = {"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "–": "-", "—": "--", "…": "..."}
_CLOSING = frozenset([*".,;:!?)]}%…”’»", "...", "..", "''", "!!", "??", "?!", "!?", "!!!", "???"])
_OPENING = frozenset([*"([{“„«$£€#", "``"])
_BOTH = frozenset("、，。！？；：「」『』（）《》〈〉…—")  # of scripts without spaces
_SUFFIX = re.compile(r"(?i)(?:n['’]t|['’](?:s|m|d|t|re|ve|ll))$")
_NUMBER = re.compile(r"\d[\d.,:/]*")
_HYPHENATED = re.compile("-|[^-]+")
_BEFORE_APOSTROPHE = re.compile("[^']+'*")
_ENDS = frozenset([".", "!", "?", "...", "!!", "?!", "!!!", "。", "！", "？"])  # after which a sentence begins

Tokenize = Literal["auto", "words", "none"]


class Prepared(NamedTuple):
    """Texts in the form of the model, and whether they were raw: then what a model generates from them is put back."""

    texts: list[str]
    raw: bool


class Word(NamedTuple):
    """A word or mark of a text."""

    surface: str  # as the text has it
    form: str  # as the model reads it


@dataclass(frozen=True)
class TextForm:
    """The form of a training text, which `read` brings other text to, and `restore` takes back.

    >>> form = TextForm.learn(["they do n't like it , do they ?", "so it is , he said ."] * 40, "word")
    >>> form.read(["I don't, she said."]).texts
    ["i do n't , she said ."]
    >>> form.restore("i do n't , she said .")
    "I don't, she said."
    """

    tokenized: bool  # whether the training text came with spaces around punctuation
    split: bool  # whether raw text is split into words and punctuation
    lower: bool = False  # whether raw text is put into lower case
    cased: frozenset[str] = frozenset()  # the few words that are not, such as N for a number
    capitalize: bool = False  # whether generated sentences get a capital
    contractions: Literal["whole", "ptb", "apostrophe", "spaces"] = "whole"  # don't, do n't, don 't, don t
    hyphens: Literal["whole", "apart", "marked"] = "whole"  # co-op, co - op, co @-@ op
    quotes: bool = False  # `` and '' for quotes
    brackets: str = ""  # "-LRB-" or "-lrb-" for (
    escaped: bool = False  # &quot; and its kin, as of Moses
    numbers: str = ""  # the token that replaces every number, such as N
    marks: frozenset[str] | None = None  # the marks that occur; others are dropped. None: all are kept
    words: frozenset[str] = frozenset()  # words with marks in them
    spacing: dict[str, str] = field(default_factory=dict)  # by mark: "left", "right", "both" (no space there), "none"

    # ---------------------------------------------------------------- learning it

    @classmethod
    def learn(
        cls, texts: Iterable[str], tokens: str, tokenize: Tokenize = "auto", *, lower: bool = False,
        tokenized: bool | None = None,
    ) -> TextForm | None:  # fmt: skip
        """The form of the training `texts` for a model of these `tokens`; None: text is not changed at all.

        `lower`: the run puts all text into lower case; `tokenized`: it is known that the texts are, or are not.
        """
        if tokenize == "none" or (tokens == "character" and tokenize == "auto"):
            return None
        sample = list(_first(texts))
        alone, attached = _evidence(sample)
        if tokenized is None:
            tokenized = tokenize == "auto" and attached <= max(alone, RARE * len(sample))
        cased = _cased(sample)
        lower_text = cased is not None
        fields: dict[str, Any] = {"lower": lower_text, "cased": cased or frozenset(), "capitalize": lower_text or lower}
        if tokenized:
            return cls(tokenized=True, split=True, **fields, **_convention(sample))
        if tokens == "word" or tokenize == "words":
            return cls(tokenized=False, split=True, **fields, spacing=_spacing(sample))
        return cls(tokenized=False, split=False, **fields) if lower_text or lower else None

    def save(self, folder: Path, name: str = FILE) -> None:
        """Write it to a run directory."""
        write_json(folder / name, self._plain(), indent=0)

    def _plain(self) -> dict[str, Any]:
        """All of it in JSON's terms."""
        return {key: sorted(value) if isinstance(value, frozenset) else value for key, value in asdict(self).items()}

    @classmethod
    def load(cls, folder: Path, name: str = FILE) -> TextForm | None:
        """The form in a run directory; None if it has none."""
        path = folder / name
        if not path.exists():
            return None
        try:
            kept = parse_json(path.read_text("utf-8"))
            sets = {key: None if kept[key] is None else frozenset(kept[key]) for key in ("marks", "words", "cased")}
            return cls(**{**kept, **sets})
        except (ValueError, KeyError, TypeError) as error:
            remedy = "train again, or copy it from an intact copy of the run"
            raise DataError(path, None, f"damaged ({error})", remedy) from error

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that the form of a text depends on."""
        return hashlib.blake2b(json.dumps(self._plain(), sort_keys=True).encode(), digest_size=8).hexdigest()

    # ---------------------------------------------------------------- using it

    def read(self, texts: Sequence[str], tokenized: bool | None = None) -> Prepared:
        """`texts` in the form of the model. `tokenized` says whether they are tokenized already; None: if it looks so,
        that is, if more of their punctuation stands alone than not."""
        tokenized = self._are_tokenized(texts) if tokenized is None else tokenized
        if tokenized or not self.split:
            return Prepared([self._lowered(text) for text in texts], not tokenized)
        return Prepared([" ".join(self.words_of(text)) for text in texts], True)

    def align(self, texts: Sequence[str], tokenized: bool | None = None) -> list[list[Word]]:
        """The words of each text, as `read` splits it, each beside its spelling in the text. None is left out: a mark
        that the training text does not have stays as it is."""
        tokenized = self._are_tokenized(texts) if tokenized is None else tokenized
        if tokenized or not self.split:
            return [list(map(Word, text.split(), self._lowered(text).split())) for text in texts]
        split = map(self._split, texts)
        return [[Word(surface, form or surface) for surface, form in zip(*one, strict=True)] for one in split]

    def of_training(self, text: str) -> str:
        """A training text as the model reads it."""
        return " ".join(self.words_of(text)) if self.split and not self.tokenized else text

    def words_of(self, text: str) -> list[str]:
        """The words and marks of raw text. Marks that the training text does not have are left out, unless there is
        nothing else."""
        if not self.tokenized:
            return list(chain.from_iterable(map(_tokens, self._lowered(text).split())))
        surfaces, forms = self._split(text)
        return list(filter(None, forms)) or surfaces

    def _are_tokenized(self, texts: Sequence[str]) -> bool:
        alone, attached = _evidence(texts, self.words)
        return self.tokenized and bool(self.marks or self.marks is None) and 0 < alone >= attached

    def _split(self, text: str) -> tuple[list[str], list[str]]:
        """The words and marks of raw text, as it has them and in the form of the model: there a mark that the training
        text does not have is empty."""
        chunks = self._lowered(text).split()
        if self.tokenized:
            words = [self._chunk(*pair) for pair in _followed(chunks)]
        else:
            words = [[Word(token, token) for token in _tokens(chunk)] for chunk in chunks]
        if chunks != (original := text.split()):
            words = [_with_case(*pair) for pair in zip(original, words, strict=True)]
        every = list(chain.from_iterable(words))
        surfaces, forms = [word.surface for word in every], [word.form for word in every]
        if not self.tokenized:
            return surfaces, forms
        forms = [self._mark(form) for form in (_with_quotes(forms) if self.quotes else forms)]
        if self.escaped:
            forms = [html.escape(form).replace("&#x27;", "&apos;") for form in forms]
        return surfaces, forms

    def _lowered(self, text: str) -> str:
        if not self.lower or text == (lower := text.lower()):
            return text
        if not self.cased:
            return lower
        return re.sub(r"\S+", lambda word: word[0] if word[0] in self.cased else word[0].lower(), text)

    def _chunk(self, chunk: str, following: str) -> list[Word]:
        """The words of what stands between two spaces; `following` is the next of the kind."""
        if chunk.isalnum() and not (self.numbers and chunk[0].isnumeric()):  # most are
            return [Word(chunk, chunk)]
        if chunk in self.words or (len(chunk) > 1 and chunk in (self.marks or ())):
            return [Word(chunk, chunk)]
        if chunk.endswith(".") and chunk[:-1] in self.words and not following:
            return [Word(chunk[:-1], chunk[:-1]), Word(".", ".")]
        pieces: list[Word] = []
        for word in _tokens(chunk):
            if word in self.words or not _has_letter(word):
                pieces.append(Word(word, word))
                continue
            stem, *suffix = self._contraction(word)
            pieces += [*self._compound(stem), *suffix]
        begins = next(filter(str.isalnum, following), "")  # after a quote or a bracket, if there is one
        if len(pieces) > 1 and pieces[-1].form == "." and begins and not begins.isupper() and not self.lower:
            surface, form = pieces[-2]
            pieces[-2:] = [Word(surface + ".", form + ".")]  # an abbreviation in the middle of a sentence
        if not self.numbers:
            return pieces
        return [Word(one.surface, self.numbers) if _NUMBER.fullmatch(one.form) else one for one in pieces]

    def _compound(self, word: Word) -> list[Word]:
        if self.hyphens == "whole" or not word.form.replace("-", "").isalpha():
            return [word]
        hyphen = "-" if self.hyphens == "apart" else "@-@"
        parts = _HYPHENATED.findall(word.surface)
        return [Word(part, hyphen if part == "-" else part.rstrip("'")) for part in parts]

    def _contraction(self, word: str) -> list[Word]:
        spaces, place = self.contractions == "spaces", _SUFFIX.search(word)
        if spaces and not place:
            return [Word(part, part.rstrip("'")) for part in _BEFORE_APOSTROPHE.findall(word)]
        if self.contractions == "whole" or not place:
            return [Word(word, word)]
        at = place.start() + (self.contractions != "ptb" and word[place.start()] in "nN")
        if not at:
            return [Word(word, word)]
        stem, suffix = word[:at], word[at:]
        return [Word(stem, stem), Word(suffix, suffix[1:] if spaces else suffix.replace("’", "'"))]

    def _mark(self, word: str) -> str:
        """A mark as the training text has it; empty if it has none."""
        if _has_letter(word) or self.marks is None or word in self.marks:
            return word
        plain = _PLAIN.get(word, word)
        if self.brackets and plain in _BRACKETS:
            return _BRACKETS[plain].lower() if self.brackets.islower() else _BRACKETS[plain]
        return next((one for one in (plain, plain[:1]) if one in self.marks), "")

    def restore(self, text: str) -> str:
        """Text of the model's form as it is usually written."""
        if "\n" in text:
            return "\n".join(map(self.restore, text.split("\n")))
        if not self.split:
            return re.sub(r"(?:^\W*|(?<=[.!?])\s+\W*)\w", lambda at: at[0].upper(), text) if self.capitalize else text
        tokens = text.split()
        return _join(_capitalized(tokens) if self.capitalize else tokens, self)


def _first(texts: Iterable[str]) -> Iterator[str]:
    """The beginning of `texts`."""
    total = 0
    for text in texts:
        yield text
        total += len(text)
        if total > SAMPLE:
            return


def _evidence(texts: Iterable[str], known: frozenset[str] = frozenset()) -> tuple[int, int]:
    """How many marks stand alone, and how many are attached to a word, except to those `known`.

    Commas and final stops count, which no language writes apart; others only where there are none of these.
    """
    alone, attached = [0, 0], [0, 0]  # commas and stops, other marks
    for text in texts:
        chunks = text.split()
        for chunk in chunks:
            if chunk in _ALONE:
                alone[chunk not in ",."] += 1
            elif len(chunk) > 1 and (chunk[-1] in ',;:!?")' or chunk[0] in '"(') and chunk not in known:
                attached[chunk[-1] != ","] += any(map(str.isalnum, chunk))
        if chunks and len(chunks[-1]) > 1 and chunks[-1][-1] == "." and chunks[-1] not in known:
            attached[0] += chunks[-1][-2].isalnum()
    return (alone[0], attached[0]) if alone[0] + attached[0] else (alone[1], attached[1])


def _cased(texts: Sequence[str]) -> frozenset[str] | None:
    """The exceptions if text is in lower case, such as N; None if it is not, or too little to know."""
    letters, count = 0, Counter[str]()
    for text in texts:
        letters += len(text) - text.count(" ")
        if text != text.lower():
            count.update(word for word in text.split() if word != word.lower())
            if len(count) > 3:
                return None
    return frozenset(count) if letters >= ENOUGH else None


def _convention(texts: Sequence[str]) -> dict[str, Any]:
    """What is usual in tokenized text: the fields of a form."""
    count = Counter(chain.from_iterable(text.split() for text in texts))
    escaped = sum(n for token, n in count.items() if token.startswith("&")) > sum(map(count.__getitem__, "&'\""))
    if escaped:
        count = Counter({html.unescape(token): n for token, n in count.items()})
    words = [word for word, _ in count.most_common() if _has_letter(word) and not all(map(str.isalnum, word))]
    enough = sum(len(word) * n for word, n in count.items()) >= ENOUGH
    marks = frozenset(word for word in count if not _has_letter(word))
    ends = sum(count[word] for word in words if word[0] in "'’" or word == "n't")
    whole = sum(count[word] for word in words if "'" in word[1:-1] and word != "n't")
    inner = sum(count[word] for word in words if "-" in word[1:-1] and word.strip("-") == word)
    contractions: str = "whole"
    if ends > whole:
        contractions = "apostrophe" if count["'t"] > count["n't"] else "ptb"
    elif enough and not whole and not any("'" in word for word in count):
        contractions = "spaces"
    hyphens = "marked" if count["@-@"] else "apart" if count["-"] > inner else "whole"
    kept = (
        word
        for word in words
        if (contractions == "whole" or not _SUFFIX.search(word) or _SUFFIX.fullmatch(word))
        and (hyphens == "whole" or not word.replace("-", "").isalpha())
    )
    digits = sum(n for word, n in count.items() if word[0].isdigit())
    return {
        "contractions": contractions,
        "hyphens": hyphens,
        "quotes": count["``"] + count["''"] > count['"'],
        "brackets": next((mark for mark in ("-LRB-", "-lrb-") if count[mark]), ""),
        "escaped": escaped,
        "numbers": "N" if enough and 10 * digits < count["N"] else "",
        "marks": marks if enough else None,
        "words": frozenset(islice(kept, MOST_WORDS)),
    }


def _spacing(texts: Sequence[str]) -> dict[str, str]:
    """How each mark of raw text is usually attached to what stands beside it."""
    left, right, total = Counter[str](), Counter[str](), Counter[str]()
    for text in texts:
        for chunk in text.split():
            if chunk.isalnum():
                continue
            parts = _tokens(chunk)
            for k, part in enumerate(parts):
                if not _has_letter(part):
                    total[part] += 1
                    left[part] += k > 0
                    right[part] += k < len(parts) - 1
    spacing = {}
    for mark, n in total.items():
        if n < OFTEN:
            continue
        sides = (left[mark] > n / 2, right[mark] > n / 2)
        even = mark in "\"'" and 0.2 < left[mark] / n < 0.8
        spacing[mark] = "even" if even else {(1, 1): "both", (1, 0): "left", (0, 1): "right"}.get(sides, "none")
    return spacing


def _join(tokens: Sequence[str], form: TextForm) -> str:
    """Tokens as text: marks are attached to the side that they belong to."""
    parts: list[str] = []
    glued, opened = True, Counter[str]()
    for token in tokens:
        plain = html.unescape(token) if form.escaped else token
        if form.brackets and plain.upper() in _CLOSED:
            plain = _CLOSED[plain.upper()]
        side = form.spacing.get(plain) or _side(plain, form)
        if plain in ("``", "''") and form.quotes:
            plain = '"'
        if side == "even":
            opened[plain] += 1
            side = "right" if opened[plain] % 2 else "left"
        if plain == "@-@":
            plain = "-"
        if not glued and side not in ("left", "both"):
            parts.append(" ")
        parts.append(plain)
        glued = side in ("right", "both")
    return "".join(parts)


_CLOSED = {name: mark for mark, name in _BRACKETS.items()}


def _side(token: str, form: TextForm) -> str:
    """Where a token is attached to the one beside it, as most languages have it."""
    if token in _BOTH or token == "@-@" or (token == "-" and form.hyphens == "apart"):
        return "both"
    if token in _CLOSING or (form.contractions != "whole" and _SUFFIX.fullmatch(token)):
        return "left"
    if token in _OPENING:
        return "right"
    return "even" if token in ('"', "'") else "none"


def _capitalized(tokens: Sequence[str]) -> list[str]:
    """With a capital at the beginning of each sentence."""
    words, begins = [], True
    for token in tokens:
        letter = _has_letter(token)
        words.append(token[:1].upper() + token[1:] if begins and letter else token)
        begins = token in _ENDS or (begins and not letter)
    return words


def _with_quotes(words: Sequence[str]) -> list[str]:
    """With `` for a quote that opens and '' for one that closes."""
    opened, tokens = False, []
    for word in words:
        if word in ('"', "“", "”"):
            opened = not opened if word == '"' else word == "“"
            word = "``" if opened else "''"
        tokens.append(word)
    return tokens


def _with_case(chunk: str, words: Sequence[Word]) -> list[Word]:
    """The words of a chunk in lower case, their surfaces as the chunk has them."""
    ends = list(accumulate(len(character.lower()) for character in chunk))  # one may become two
    places = [0, *(bisect_left(ends, end) + 1 for end in accumulate(len(word.surface) for word in words))]
    return [Word(chunk[start:end], word.form) for (start, end), word in zip(pairwise(places), words, strict=True)]


def _followed(chunks: Sequence[str]) -> Iterator[tuple[str, str]]:
    return zip(chunks, [*chunks[1:], ""], strict=False)


def _has_letter(word: str) -> bool:
    return any(map(str.isalnum, word))


@lru_cache(1 << 16)  # most chunks of a text are frequent ones
def _tokens(chunk: str) -> tuple[str, ...]:
    """The words and marks of what stands between two spaces."""
    return (chunk,) if chunk.isalnum() else tuple(_pattern().findall(chunk))


@cache
def _pattern() -> re.Pattern[str]:
    """Finds the tokens of raw text. Its class of marks is made on first use: `re` does not know Unicode's own."""
    codes = [k for k in chain(range(0x21, 0x10000), range(0x1F000, 0x1FB00)) if not 0xD800 <= k < 0xE000]
    marks = "".join(re.escape(chr(k)) for k in codes if unicodedata.category(chr(k))[0] in "PS" and chr(k) != "_")
    word = f"[^\\s{marks}]"
    return re.compile(
        rf"(?:https?://|www\.)\S*[\w/]|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|[@#]{word}+"
        rf"|<[A-Za-z]+>|(?:[^\W\d_]\.){{2,}}|\d+(?:[.,:/]\d+)+|{word}+(?:[.'’&/-]{word}+)*"
        rf"|\.{{2,}}|-{{2,}}|\*{{2,}}|[!?]{{2,}}|\S"
    )
