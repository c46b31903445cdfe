"""The token store: what it holds, and that a wrong one is never used."""

import multiprocessing
import os
import pickle
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carousel.data import END, Lines, RunningText, Vocabulary, tokenize
from carousel.data.sources import lines
from carousel.data.stores import ragged
from carousel.errors import DataError

TEXT = "to be\n\nor not to be\nthat is\n"


def cached(cache):
    return sorted(path.name for path in cache.iterdir())


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


# -------------------------------------------------------------------- what it holds


@given(st.lists(st.text("ab不🙂 "), min_size=1), st.sampled_from(["character", "word", "bpe"]), st.integers(1, 50))
def test_rows_are_the_lines(tmp_path_factory, rows, kind, chunk):
    folder = tmp_path_factory.mktemp("store")
    (folder / "text.txt").write_text("\n".join([*rows, "ab a b"]), "utf-8")
    reader = Lines(folder / "text.txt")
    vocabulary = Vocabulary.train(reader, kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK", chunk)
        store = tokenize(reader, vocabulary, folder)
    kept = [row for row in [*rows, "ab a b"] if row.strip()]
    assert [row.tolist() for row in store] == [vocabulary.encode(row).tolist() for row in kept]
    assert store.tokens.tolist() == [i for row in kept for i in vocabulary.encode(row).tolist()]
    assert len(store) == len(kept) and store[-1].tolist() == vocabulary.encode("ab a b").tolist()
    with pytest.raises(IndexError):
        store[len(store)]


def test_running_text_keeps_newlines(text_file, cache):
    reader = RunningText(text_file(TEXT))
    vocabulary = Vocabulary.train(reader)
    store = tokenize(reader, vocabulary, cache)
    assert vocabulary.decode(store.tokens) == TEXT


def test_running_words_end_each_line(text_file, cache):
    """As Mikolov's and Zaremba's readers do: every newline is <eos>."""
    reader = RunningText(text_file(TEXT), end_lines=True)
    vocabulary = Vocabulary.train(reader, "word")
    store = tokenize(reader, vocabulary, cache)
    expected = TEXT.replace("\n", " [END] ").split()
    assert [vocabulary.token(i) for i in store.tokens] == expected
    assert [row[-1] for row in store] == [END] * 4


def test_lines_running_text_and_vocabularies_do_not_share_a_cache(text_file, cache):
    path = text_file(TEXT)
    a, b = Vocabulary.train(Lines(path)), Vocabulary.train(Lines(path), min_frequency=2)
    readers = Lines(path), RunningText(path), RunningText(path, end_lines=True)
    for _ in range(2):
        counts = [len(tokenize(reader, v, cache).tokens) for reader in readers for v in (a, b)]
        assert counts == [24, 24, 28, 28, 28, 28]
    assert len(cached(cache)) == 6


def test_unknown_tokens_are_counted(text_file, cache):
    reader = Lines(text_file("abcc\nc\n"))
    assert tokenize(reader, Vocabulary.from_tokens("ab", "character"), cache).unknown == 3


def test_small_and_large_vocabularies(text_file, cache):
    reader = Lines(text_file("".join(map(chr, range(0x10000, 0x10000 + 66_000)))))
    vocabulary = Vocabulary.train(reader)
    store = tokenize(reader, vocabulary, cache)
    assert store.tokens.dtype == np.uint32 and vocabulary.decode(store[0]) == next(iter(reader))
    assert tokenize(reader, Vocabulary.train(reader, size=1 << 16), cache).tokens.dtype == np.uint16


def test_the_store_is_mapped_not_copied(text_file, cache):
    reader = Lines(text_file(TEXT))
    store = tokenize(reader, Vocabulary.train(reader), cache)
    for array in (store.tokens, store.offsets):
        assert not array.flags.writeable and not array.flags.owndata
    again = pickle.loads(pickle.dumps(store))
    assert len(pickle.dumps(store)) < 1000 and again.tokens.tolist() == store.tokens.tolist()
    assert repr(again) == "TokenStore('text.txt', 3 lines, 24 tokens)"


# -------------------------------------------------------------------- when it is made anew


@pytest.fixture
def made(text_file, cache):
    """A file, its vocabulary, and a function that says whether the cache was made anew."""
    path = text_file(TEXT)
    vocabulary = Vocabulary.train(Lines(path))

    def anew():
        store = tokenize(Lines(path), vocabulary, cache)
        expected = [vocabulary.encode(line).tolist() for line in Lines(path)]
        assert [row.tolist() for row in store] == expected
        return store.built

    assert anew() and not anew()
    return path, anew


def test_a_changed_file_is_noticed(made, cache):
    path, anew = made
    old = path.stat()
    path.write_text(TEXT.replace("not", "ton"), "utf-8")  # the same size
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))  # and the same time
    assert anew() and not anew()
    path.write_text(TEXT + "more", "utf-8")
    assert anew() and not anew()
    os.utime(path, ns=(0, 0))  # touched
    assert anew() and not anew()
    assert len(cached(cache)) == 1  # a changed file replaces its cache


def test_another_format_is_noticed(made, monkeypatch):
    _, anew = made
    monkeypatch.setattr("carousel.data.stores.tokens.FORMAT", 2)
    assert anew() and not anew()


def test_a_short_cache_is_noticed(made, cache):
    _, anew = made
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    for size in {0, 1, 8, len(whole) // 2, len(whole) - 1}:
        file.write_bytes(whole[:size])
        assert anew() and not anew(), size
    file.write_bytes(b"x" * len(whole))
    assert anew() and not anew()


def test_a_damaged_cache_is_noticed(made, cache):
    """Any single byte of the tokens or their offsets."""
    _, anew = made
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    columns, _ = ragged.read(file)
    for array in (columns["tokens"].values, columns["tokens"].offsets):
        at = whole.index(array.tobytes())
        for place in range(at, at + array.nbytes, 7):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            with pytest.raises(ragged.Damaged):
                ragged.read(file)
    assert anew() and not anew()


def test_a_directory_in_its_place_is_an_error(made, cache):
    _, anew = made
    (file,) = cache.iterdir()
    file.unlink()
    (file / "x").mkdir(parents=True)
    with pytest.raises(DataError, match="cannot keep tokens here"):
        anew()


# -------------------------------------------------------------------- what can go wrong while it is made


def test_nothing_known_is_an_error(text_file, cache):
    with pytest.raises(DataError, match=r"text.txt: none of its 24 tokens is in the vocabulary; give text of the same"):
        tokenize(Lines(text_file(TEXT)), Vocabulary.from_tokens("xyz", "character"), cache)
    assert cached(cache) == []


def test_bad_text_leaves_nothing_and_keeps_the_old(made, cache):
    path, anew = made
    before = cached(cache)
    path.write_bytes(b"fine\n\xff\n")
    with pytest.raises(DataError, match=r"text.txt:2: byte 0xff at column 1"):
        anew()
    assert cached(cache) == before


def test_a_file_that_grows_while_it_is_read(text_file, cache):
    class Growing(Lines):
        def blocks(self, *options):
            yield from super().blocks(*options)
            with self.path.open("a") as file:
                file.write("more\n")

    reader = Growing(text_file(TEXT))
    with pytest.raises(DataError, match="changed while it was read; try again"):
        tokenize(reader, Vocabulary.from_tokens("to", "character"), cache)
    assert cached(cache) == []


def test_a_cache_that_cannot_be_written(text_file, tmp_path):
    reader = Lines(text_file(TEXT))
    for wrong in (reader.path, reader.path / "below"):
        with pytest.raises(DataError, match=r"cannot keep tokens here \(.*\); choose another cache directory"):
            tokenize(reader, Vocabulary.train(reader), wrong)


@pytest.mark.parametrize("room", [50_000, 130_000])  # neither the first writing nor the second fits; the first does
def test_a_full_disk_leaves_nothing(text_file, cache, room):
    """A limit on file size stands in for the full disk: the same call fails at the same places."""
    reader = Lines(text_file("to be or not to be\n" * 3_000))
    vocabulary = Vocabulary.train(reader)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        with pytest.raises(DataError, match=r"\(file too large\); free some space, or choose another cache directory"):
            tokenize(reader, vocabulary, cache)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert cached(cache) == []
    assert tokenize(reader, vocabulary, cache).built


def test_what_a_killed_process_left_is_swept_up(made, cache):
    path, anew = made
    (name,) = cached(cache)
    old, young = cache / f".{name}.1-a.part", cache / f".{name}.2-b.part"
    for left in (old, young):
        left.write_bytes(b"half")
    os.utime(old, (time.time() - 100_000,) * 2)
    os.utime(path, ns=(0, 0))
    assert anew()
    assert cached(cache) == [young.name, name]  # another process may still be writing the young one


def test_a_kill_leaves_no_half_file(text_file, cache):
    reader = Lines(text_file(TEXT))
    vocabulary = Vocabulary.train(reader)

    class Slow(Lines):
        def blocks(self, *options):
            yield from super().blocks(*options)
            os.kill(os.getpid(), signal.SIGKILL)

    process = multiprocessing.get_context("fork").Process(target=tokenize, args=(Slow(reader.path), vocabulary, cache))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert cached(cache) == []
    assert tokenize(reader, vocabulary, cache).built


def test_two_processes_make_the_same_cache(text_file, cache):
    reader = Lines(text_file("".join(f"line {i}\n" for i in range(20_000))))
    vocabulary = Vocabulary.train(reader)
    expected = vocabulary.encode_many(list(reader))[0].tolist()
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(3), context.SimpleQueue()

    def work():
        barrier.wait()
        for _ in range(3):
            store = tokenize(reader, vocabulary, cache)
            results.put(store.tokens.tolist() == expected)

    processes = [context.Process(target=work) for _ in range(3)]
    for process in processes:
        process.start()
    got = [results.get() for _ in range(9)]
    for process in processes:
        process.join()
    assert got == [True] * 9 and [p.exitcode for p in processes] == [0] * 3
    assert len(cached(cache)) == 1


def test_memory_does_not_grow_with_the_file(tmp_path):
    """20 MB of text cost no more than 5 MB do, except what the system maps of the result."""
    program = """if True:
        import resource, sys
        from carousel.data import RunningText, Vocabulary, tokenize
        vocabulary = Vocabulary.from_tokens("abc \\n", "character")
        peaks = []
        for n in (5, 20):
            with open(sys.argv[1], "w") as file:
                for _ in range(n):
                    file.write(("abc ab a " * 11 + "\\n") * 10_000)
            tokenize(RunningText(sys.argv[1]), vocabulary, sys.argv[2])
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        print(peaks[1] - peaks[0])
    """
    run = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "text.txt", tmp_path / "cache"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    grown = int(run.stdout) * (1000 if sys.platform == "linux" else 1)
    assert grown < 1.2 * 15_000_000 * 2, run.stderr  # two bytes a token


def test_every_byte_counts(made, cache):
    """Whatever byte is damaged, metadata too: the file is refused, or nothing of it has changed (padding)."""
    _, anew = made
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    columns, info = ragged.read(file)
    kept = (columns["tokens"].values.tolist(), columns["tokens"].offsets.tolist(), info)
    noticed = 0
    for place in range(len(whole)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        try:
            columns, info = ragged.read(file)
        except (ragged.Damaged, OSError):
            noticed += 1
        else:
            assert (columns["tokens"].values.tolist(), columns["tokens"].offsets.tolist(), info) == kept, place
    assert noticed > len(whole) / 4
    text = file.read_bytes().replace(b'"unknown"', b'"unkown_"')
    file.write_bytes(text)
    assert anew() and not anew()
