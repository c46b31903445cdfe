"""Patterns of files and compressed files: the same text as one plain file."""

import bz2
import gzip
import lzma

import pyarrow as pa
import pytest

from carousel.data import Lines, RunningText, Vocabulary, tokenize
from carousel.data.sources.files import matching, open_bytes, size_of
from carousel.data.sources.split import split_end
from carousel.errors import DataError

TEXT = "".join(f"line {k} of the text, with some words {k * k}\n" for k in range(300))


def zstd(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data, asbytes=True)


COMPRESSORS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}


@pytest.fixture(params=COMPRESSORS)
def compressed(request, tmp_path):
    path = tmp_path / f"text.txt{request.param}"
    if request.param == ".zst":
        with pa.output_stream(str(path), compression="zstd") as file:
            file.write(TEXT.encode())
    else:
        path.write_bytes(COMPRESSORS[request.param](TEXT.encode()))
    return path


def test_compressed_files_are_read(compressed, tmp_path):
    plain = tmp_path / "plain.txt"
    plain.write_text(TEXT)
    assert list(Lines(compressed)) == TEXT.splitlines()
    assert "".join(RunningText(compressed)) == TEXT
    assert size_of(compressed) == len(TEXT)
    with open_bytes(compressed, 1234) as file:
        assert file.read(50) == TEXT[1234:1284].encode()
    vocabulary = Vocabulary.train(Lines(plain), "word")
    stores = [tokenize(Lines(path), vocabulary, tmp_path / "cache") for path in (plain, compressed)]
    assert stores[0].tokens.tolist() == stores[1].tokens.tolist()


def test_the_end_of_a_compressed_file_is_held_out(compressed):
    split = split_end(compressed, 0.1)
    source = RunningText(compressed)
    parts = ["".join(source.take(part)) for part in (split.rest, split.held_out)]
    assert "".join(parts) == TEXT and parts[0].endswith("\n")
    assert 0.05 < len(parts[1]) / len(TEXT) < 0.15
    assert next(source.take(split.held_out).pieces()).line == parts[0].count("\n") + 1


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5])
def test_a_pattern_is_its_files_in_order(tmp_path, share):
    lines = TEXT.splitlines(keepends=True)
    for k in range(3):
        (tmp_path / f"part{k}.txt").write_text("".join(lines[100 * k : 100 * (k + 1)]))
    pattern = tmp_path / "part*.txt"
    assert [path.name for path in matching(pattern)] == ["part0.txt", "part1.txt", "part2.txt"]
    assert list(Lines(pattern)) == TEXT.splitlines()
    source = RunningText(pattern)
    assert "".join(source) == TEXT
    split = split_end(pattern, share)
    assert "".join("".join(source.take(part)) for part in (split.rest, split.held_out)) == TEXT
    first = next(source.take(split.held_out).pieces())
    assert lines.index(first.text) % 100 + 1 == first.line  # counted in its own file


def test_a_changed_file_of_a_pattern_is_tokenized_again(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("to be or not\n")
    vocabulary = Vocabulary.train(["to be or not"], "word")
    source = Lines(tmp_path / "*.txt")
    assert tokenize(source, vocabulary, tmp_path / "cache").built
    assert not tokenize(source, vocabulary, tmp_path / "cache").built
    (tmp_path / "b.txt").write_text("not to be\n")
    again = tokenize(source, vocabulary, tmp_path / "cache")
    assert again.built and len(again) == 2


def test_complaints_name_the_file(tmp_path):
    (tmp_path / "a.txt").write_text("fine\n")
    (tmp_path / "b.txt").write_bytes(b"fine\n\xff\n")
    with pytest.raises(DataError, match=r"b\.txt:2: byte 0xff"):
        list(Lines(tmp_path / "*.txt"))
    with pytest.raises(DataError, match="no file matches the pattern"):
        Lines(tmp_path / "*.csv")


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz"])
def test_a_cut_file_is_one_line(tmp_path, ending):
    path = tmp_path / f"text{ending}"
    data = COMPRESSORS[ending](TEXT.encode())
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError, match="damaged or cut short"):
        list(Lines(path))


def test_an_archive_is_refused(tmp_path):
    path = tmp_path / "text.zip"
    path.write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(DataError, match="is a zip archive; extract its files first"):
        list(Lines(path))
