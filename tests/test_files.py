"""Files are replaced whole or not at all."""

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from carousel import files
from carousel.files import (
    remove_parts,
    replace_file,
    replace_files,
    replace_text_file,
    write_bytes,
    write_json,
    write_text,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_bytes_text_and_json(tmp_path):
    write_bytes(tmp_path / "deep" / "er" / "a", b"\x00\xff")
    write_text(tmp_path / "b", "詩\r\n")
    write_json(tmp_path / "c.json", {"title": "詩", "n": [1, 2.5, None]})
    assert (tmp_path / "deep" / "er" / "a").read_bytes() == b"\x00\xff"
    assert (tmp_path / "b").read_bytes() == "詩\r\n".encode()
    assert json.loads((tmp_path / "c.json").read_text("utf-8")) == {"title": "詩", "n": [1, 2.5, None]}
    assert "詩" in (tmp_path / "c.json").read_text("utf-8")
    assert names(tmp_path) == ["b", "c.json", "deep"]


def test_until_the_block_ends_the_old_content_is_there(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("before")
    with replace_text_file(path) as file:
        file.write("after")
        assert path.read_text() == "before"
    assert path.read_text() == "after"
    assert names(tmp_path) == ["page.html"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("replace", [replace_text_file, replace_file])
def test_a_failure_in_the_block_changes_nothing(tmp_path, replace, error):
    path = tmp_path / "page.html"
    path.write_text("before")
    with pytest.raises(error), replace(path) as file:
        file.write("half" if replace is replace_text_file else b"half")
        file.flush()
        raise error
    with pytest.raises(error), replace(tmp_path / "new" / "er" / "page.html"):
        raise error
    assert path.read_text() == "before"
    assert names(tmp_path) == ["page.html"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_changes_nothing_and_names_the_file(tmp_path, monkeypatch, call):
    path = tmp_path / "model.safetensors"
    write_text(path, "old")
    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError) as caught:
        write_text(path, "new")
    monkeypatch.undo()
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(path))
    assert path.read_text() == "old"
    assert names(tmp_path) == ["model.safetensors"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_device_is_written_not_replaced():
    with pytest.raises(OSError, match="No space left"):
        write_text("/dev/full", "a")
    write_text("/dev/null", "a")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode) and stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_errors_of_the_block_keep_their_own_file(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, replace_file(tmp_path / "out"):
        (tmp_path / "in").read_bytes()
    assert caught.value.filename == str(tmp_path / "in")


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real").write_text("before")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_text(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "after"


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_permissions_are_those_of_the_process(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_text(tmp_path / "a", "a")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("name", ["a" * 255, "詩" * 85])
def test_a_name_may_be_as_long_as_the_system_allows(tmp_path, name):
    write_text(tmp_path / name, "a")
    assert names(tmp_path) == [name]


def test_a_place_that_cannot_be_written_is_known_before_the_work(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    (tmp_path / "page.html").mkdir()
    for path, error in (
        (file / "page.html", NotADirectoryError),
        (file / "sub" / "page.html", NotADirectoryError),
        (tmp_path / "page.html", IsADirectoryError),
    ):
        with pytest.raises((error, FileExistsError)), replace_text_file(path):
            pytest.fail("the work began")
    assert file.read_text() == "mine"


@pytest.mark.parametrize("there", [True, False])
def test_a_directory_is_filled_at_the_end_or_not_at_all(tmp_path, there):
    folder = tmp_path / "deep" / "book"
    if there:
        folder.mkdir(parents=True)
        (folder / "index.html").write_text("before")
        (folder / "mine").write_text("mine")
    with pytest.raises(RuntimeError), replace_files(folder) as part:
        (part / "index.html").write_text("half")
        raise RuntimeError
    before = {"index.html": "before", "mine": "mine"} if there else {}
    assert {p.name: p.read_text() for p in folder.glob("*")} == before
    assert folder.exists() == there == (tmp_path / "deep").exists()
    with replace_files(folder) as part:
        (part / "index.html").write_text("new")
        (part / "one" / "two").mkdir(parents=True)
        (part / "one" / "two" / "deep").write_text("deep")
        assert not there or (folder / "index.html").read_text() == "before"
    after = {"index.html": "new", "one/two/deep": "deep"} | ({"mine": "mine"} if there else {})
    assert {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()} == after
    assert names(tmp_path / "deep") == ["book"]


def test_a_file_in_the_place_of_a_directory_is_known_before_the_work(tmp_path):
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises((NotADirectoryError, FileExistsError)), replace_files(folder):
            pytest.fail("the work began")


def test_parts_of_killed_processes_are_removed_once_they_are_old(tmp_path):
    for name in (".a.1-x.part", ".b.2-y.part", "c.part", ".d"):
        (tmp_path / name).touch()
    os.utime(tmp_path / ".a.1-x.part", (0, 0))
    remove_parts(tmp_path, older_than=3600)
    assert names(tmp_path) == [".b.2-y.part", ".d", "c.part"]
    remove_parts(tmp_path)
    assert names(tmp_path) == [".d", "c.part"]


def test_what_is_half_written_has_a_name_that_remove_parts_knows(tmp_path):
    with replace_file(tmp_path / "a"):
        (part,) = tmp_path.iterdir()
        assert part.name.startswith(".") and part.name.endswith(files.PART)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("replace", [replace_text_file, replace_file])
def test_a_device_that_is_full_has_a_name(replace):
    with pytest.raises(OSError, match="No space left") as caught, replace("/dev/full") as file:
        file.write("text" if replace is replace_text_file else b"text")
    assert caught.value.filename == "/dev/full"
