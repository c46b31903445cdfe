"""What a run keeps of the form of its texts, and what it usually reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from ...data.text.encoder import TextEncoder
from ...data.text.form import TextForm, Word
from ...data.text.usual import FILE, Tally
from ...training.run import read_json


class TextProperties(TypedDict):
    """The form of a run's texts, and what is usual in them, as `TextAssets` takes them."""

    form: TextForm | None
    usual: Tally


@dataclass(kw_only=True)
class TextAssets:
    """What a run on text keeps beside its vocabulary."""

    form: TextForm | None = None  # of the training text
    usual: Tally = field(default_factory=Tally)  # what validation text is like

    def save(self, folder: Path) -> None:
        """Write the files; `load_reading` reads those of this class, subclasses write their own beside them."""
        self.usual.save(folder)
        if self.form is not None:
            self.form.save(folder)


def load_reading(folder: Path) -> TextProperties:
    """Read what `TextAssets.save` wrote."""
    return {"form": TextForm.load(folder), "usual": load_usual(folder)}


def load_usual(folder: Path) -> Tally:
    return read_json(folder / FILE, Tally)


def split_words(
    form: TextForm | None, sentences: Sequence[str | Sequence[str]], tokenized: bool | None = None
) -> tuple[list[list[str]], list[list[str]]]:
    """The words of sentences, each given as text or as a list of words: as the model reads them, and as they are
    written there; `tokenized` as in `TextForm.read`."""
    texts = [sentence for sentence in sentences if isinstance(sentence, str)]
    split = ([Word(word, word) for word in text.split()] for text in texts)
    prepared = iter(split if form is None else form.align(texts, tokenized))
    words = [next(prepared) if isinstance(one, str) else [Word(word, word) for word in one] for one in sentences]
    return [[word.form for word in one] for one in words], [[word.surface for word in one] for one in words]


def usual_of(encoder: TextEncoder, texts: Iterable[str]) -> Tally:
    """What is usual in `texts`, which are like those to come."""
    return Tally().add_sample(lambda sample: encoder(sample)[0]["tokens"].values, texts)
