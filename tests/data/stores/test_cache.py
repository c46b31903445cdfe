"""The cache of integers: what it keeps apart, and what it deletes."""

import os
import time

import numpy as np
import pytest

from carousel.data.stores import cache
from carousel.data.stores.cache import cached
from carousel.data.stores.ragged import RaggedWriter

DAY = 24 * 3600


def build(path):
    with RaggedWriter(path, {"tokens": np.uint16}) as writer:
        writer.append("tokens", np.array([4, 5]), np.array([2]))
        writer.finish({"from": "a"})


def get(folder, slot):
    return cached(folder, "poems", [slot], {"from": "a"}, build)


def test_another_version_makes_its_own(tmp_path, monkeypatch):
    first = get(tmp_path, "a")
    assert first.built and not get(tmp_path, "a").built
    monkeypatch.setattr(cache, "__version__", "999")
    second = get(tmp_path, "a")
    assert second.built and second.path != first.path and first.path.exists()


def age(path, days):
    then = time.time() - days * DAY
    os.utime(path, (then, then))


def test_what_is_not_used_for_a_month_is_deleted(tmp_path):
    old, used, fresh = (get(tmp_path, slot).path for slot in "abc")
    other = tmp_path / "table.arrow"
    other.write_bytes(b"somebody's")
    for path in (old, used, other):
        age(path, 40)
    age(fresh, 20)
    assert not get(tmp_path, "b").built  # its use is noted
    get(tmp_path, "d")
    assert not old.exists()
    assert used.exists() and fresh.exists() and other.exists()


def test_a_file_that_cannot_be_deleted_is_left(tmp_path, monkeypatch):
    path = get(tmp_path, "a").path
    age(path, 40)

    def refuse(self):
        raise PermissionError

    monkeypatch.setattr(type(path), "unlink", refuse)
    cache.prune(tmp_path)
    assert path.exists()


@pytest.mark.parametrize("seconds, gone", [(cache.UNUSED - 10, False), (cache.UNUSED + 10, True)])
def test_the_limit(tmp_path, seconds, gone):
    path = get(tmp_path, "a").path
    cache.prune(tmp_path, now=path.stat().st_mtime + seconds)
    assert path.exists() != gone
