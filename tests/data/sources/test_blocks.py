"""Blocks of text hold what the readers give line by line."""

import gzip

import numpy as np
import pytest

from carousel.data import Lines, RunningText, Vocabulary
from carousel.data.sources import lines
from carousel.data.sources.blocks import Block
from carousel.errors import DataError

TEXTS = [
    "one\ntwo\n", "one\n\n two \r\n\r\nthree", "\ufeffbom\n中文\n\u3000\n \t\nend\n", "\x1c\nx\n", "a\rb\nc\r",
    "only", "long " * 40 + "\nshort\n", "x" * 90 + "\ny\n",
]  # fmt: skip
READERS = {"lines": Lines, "running": RunningText, "ends": lambda path: RunningText(path, end_lines=True)}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("size", [7, 64, 1 << 20])
def test_blocks_have_the_texts_of_pieces(tmp_path, monkeypatch, text, kind, size):
    monkeypatch.setattr(lines, "BLOCK", size)
    path = tmp_path / "text.txt.gz"
    with gzip.open(path, "wb") as file:
        file.write(text.encode())
    source = READERS[kind](path)
    pieces, blocks = list(source.pieces()), list(source.blocks(size))
    joined = [("".join(part), end) for part, end in _whole((p.text, p.end) for p in pieces)]
    texts = [(t, bool(e)) for block in blocks for t, e in zip(block.texts(), block.ends, strict=True)]
    assert [("".join(part), end) for part, end in _whole(texts)] == joined
    if kind == "lines":
        assert source.blank == text.count("\n") + (not text.endswith("\n")) - len(pieces)


def _whole(texts):
    """Lines that came in several pieces, put together."""
    part = []
    for text, end in texts:
        part.append(text)
        if end or text.endswith("\n"):
            yield part, end
            part = []
    if part:
        yield part, False


@pytest.mark.parametrize("kind", READERS)
def test_what_is_wrong_is_found_at_its_line(tmp_path, kind):
    path = tmp_path / "text.txt"
    for raw, message in ((b"fine\nfine\nb\xffd\n", "text.txt:3: byte 0xff at column 2"),
                         (b"fine\na\0\n", "text.txt:2: zero byte at column 2"),
                         (b" \n\n\t\n", "all 3 lines are blank")):  # fmt: skip
        path.write_bytes(raw)
        for size in (5, 1 << 20):
            with pytest.raises(DataError, match=message):
                list(READERS[kind](path).blocks(size))


@pytest.mark.parametrize("kind", ["character", "word", "bpe"])
def test_ids_of_a_block(kind):
    texts = ["to be or\u3000not", "", "中文 to", "[PAD] be\n", "  two  spaces "] * 900
    vocabulary = Vocabulary.train(texts, kind, size=400 if kind == "bpe" else None)
    for some in (texts, texts[:5]):
        values, lengths = vocabulary.encode_block(Block.of(some))
        one_by_one = [vocabulary.encode(text) for text in some]
        assert values.tolist() == np.concatenate(one_by_one).tolist()
        assert lengths.tolist() == list(map(len, one_by_one))
