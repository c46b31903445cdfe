"""What is held out of a training file: how much, which examples, and that no text is on both sides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carousel.data import Lines, RunningText
from carousel.data.sources.brackets import Trees
from carousel.data.sources.conll import Conll
from carousel.data.sources.split import FEWEST, hash_text, split_end, split_examples
from carousel.data.sources.tables import PairTable, Table
from carousel.tasks.translate.pairs import Pairs

ROWS = [f"text number {k}" for k in range(200)]
FILES = {
    "lines.txt": (Lines, "".join(f"{row}\n" for row in ROWS)),
    "table.tsv": (Table, "text\tlabel\n" + "".join(f"{row}\t{len(row)}\n" for row in ROWS)),
    "pairs.csv": (PairTable, "".join(f"{row},other {row},1\n" for row in ROWS)),
    "words.conll": (Conll, "".join("".join(f"{w}\tO\n" for w in row.split()) + "\n" for row in ROWS)),
    "trees.txt": (Trees, "".join(f"(1 (0 {row.replace(' ', '_')}) (1 x))\n" for row in ROWS)),
    "pairs.tsv": (lambda path: Pairs([path]), "".join(f"{row}\tÜ {row}\n" for row in ROWS)),
}


def sides(source, share=0.05, seed=0):
    split = split_examples(source, share, seed)
    return split, source.take(split.rest), source.take(split.held_out)


@pytest.mark.parametrize("name", FILES)
def test_every_reader_gives_each_example_to_one_side(text_file, name):
    make, text = FILES[name]
    source = make(text_file(text, name))
    split, rest, held = sides(source)
    assert (split.examples, split.total) == (10, 200) == (len(list(held)), len(list(source)))
    key = repr
    assert sorted(map(key, [*rest, *held])) == sorted(map(key, source))
    assert not set(rest.keys()) & set(held.keys())
    assert rest.part_mark != held.part_mark and source.part_mark == {}


def test_copies_are_never_on_both_sides(text_file):
    lines = [f"line {k % 50}" if k % 3 else f"LINE  {k % 50} " for k in range(300)]
    _, rest, held = sides(Lines(text_file("\n".join(lines))), share=0.2)
    train, dev = ({hash_text(text, 0) for text in part} for part in (rest, held))
    assert len(dev) > 5 and not train & dev


def test_a_text_with_very_many_copies_stays_in_training(text_file):
    """Whatever the seed: it would be all of the validation data."""
    source = Lines(text_file("ok\n" * 500 + "".join(f"{row}\n" for row in ROWS)))
    for seed in range(40):
        split, _, held = sides(source, seed=seed)
        assert "ok" not in set(held) and split.examples == len(list(held)) == 35


def test_the_choice_depends_on_seed_and_text_only(text_file):
    forwards, backwards = (Lines(text_file("\n".join(rows), f"{k}.txt")) for k, rows in enumerate((ROWS, ROWS[::-1])))
    assert set(sides(forwards)[2]) == set(sides(backwards)[2]) != set(sides(forwards, seed=1)[2])


@given(st.integers(1, 400), st.sampled_from([0.01, 0.05, 0.2, 0.5]))
def test_how_much_is_held_out(count, share):
    class Texts(list):
        keys = list.__iter__

    split = split_examples(Texts(f"t {k}" for k in range(count)), share)
    if count < FEWEST:
        assert split.held_out is None and str(FEWEST) in split.problem
    else:
        assert split.examples == max(round(share * count), min(10, count // 5))


@pytest.mark.parametrize("end_lines", [False, True])
def test_running_text_is_split_in_two(text_file, end_lines):
    path = text_file("".join(f"{k} some words of a play\n" for k in range(400)))
    source = RunningText(path, end_lines=end_lines)
    split = split_end(path, 0.1)
    rest, held = source.take(split.rest), source.take(split.held_out)
    assert [*rest.pieces(), *held.pieces()] == list(source.pieces())  # with the numbers of their lines
    assert 0.08 < split.examples / split.total < 0.11
    assert next(held.pieces()).line == split.held_out.line == len(list(rest)) + 1


def test_running_text_without_lines_is_split_between_words(text_file):
    path = text_file("wörter und wörter " * 1000)
    split = split_end(path, 0.05)
    source = RunningText(path)
    parts = ["".join(source.take(part)) for part in (split.rest, split.held_out)]
    assert "".join(parts) == path.read_text("utf-8") and parts[1].startswith(" ") and 500 < len(parts[1]) < 1000


def test_little_running_text_is_not_split(text_file):
    assert split_end(text_file("a line\n" * 20), 0.05).problem == "140 bytes of text, and 2,000 are needed"
