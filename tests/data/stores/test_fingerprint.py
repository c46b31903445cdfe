"""A changed or damaged file is noticed."""

import hashlib

import numpy as np
import pytest

from carousel.data.stores import fingerprint


def test_a_large_file_is_sampled(tmp_path, monkeypatch):
    """Beyond BLOCKS blocks, those hashed are spread from first to last."""
    monkeypatch.setattr(fingerprint, "BLOCK", 4)
    monkeypatch.setattr(fingerprint, "BLOCKS", 3)
    data = np.arange(21, dtype=np.uint8)  # blocks 0 to 5; 0, 2 and 5 are hashed
    (tmp_path / "file").write_bytes(data.tobytes())
    assert fingerprint.of_file(tmp_path / "file")["digest"] == fingerprint.of_array(data)
    noticed = []
    for place in range(21):
        changed = data.copy()
        changed[place] ^= 255
        noticed.append(fingerprint.of_array(changed) != fingerprint.of_array(data))
    assert [place // 4 for place in range(21) if noticed[place]] == [0] * 4 + [2] * 4 + [5]


@pytest.mark.parametrize("data", [b"", b"x", b"x" * 1000])
def test_a_file_has_the_digest_of_its_bytes(tmp_path, data):
    """blake2b of the size in digits, then of the content: here by `hashlib` alone."""
    path = tmp_path / "file"
    path.write_bytes(data)
    mark = fingerprint.of_file(path)
    assert mark["digest"] == hashlib.blake2b(str(len(data)).encode() + data, digest_size=16).hexdigest()
    assert (mark["size"], mark["mtime_ns"]) == (len(data), path.stat().st_mtime_ns)


def test_several_files_are_told_apart_by_place_and_order(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("a")
    two.write_text("bc")
    both = fingerprint.of_files([one, two])
    assert both["size"] == 3
    assert both["mtime_ns"] == max(one.stat().st_mtime_ns, two.stat().st_mtime_ns)
    assert fingerprint.of_files([two, one])["digest"] != both["digest"]
    assert fingerprint.of_files([one]) == fingerprint.of_file(one)
    two.write_text("bd")
    assert fingerprint.of_files([one, two])["digest"] != both["digest"]
