"""Trees in brackets and in CoNLL-U: what is read, what is refused and with what words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carousel.data.sources.brackets import Tree, Trees
from carousel.errors import DataError

WORDS = st.text("abcé'\u00a0,", min_size=1, max_size=4)
LABELS = st.sampled_from(["0", "1", "NP", "-LRB-"])
TREES = st.recursive(
    st.tuples(LABELS, WORDS).map(lambda pair: f"({pair[0]} {pair[1]})"),
    lambda inner: st.tuples(LABELS, st.lists(inner, min_size=1, max_size=3)).map(
        lambda pair: f"({pair[0]} {' '.join(pair[1])})"
    ),
    max_leaves=12,
)


@given(TREES)
def test_what_is_read_is_written_again(text):
    tree = Tree.parse(text)
    assert str(tree) == text
    assert " ".join(tree.leaves) == " ".join(part.partition(")")[0] for part in text.split(" ") if ")" in part)
    assert tree.parents[-1] == -1
    assert all(parent > node for node, parent in enumerate(tree.parents[:-1]))
    assert len(tree.drawing().splitlines()) == len(tree)


def test_a_tree_may_go_over_lines_and_have_no_label(tmp_path):
    path = tmp_path / "wsj.mrg"
    path.write_text("( (S\n    (NP (DT the) (NN dog))\n\n  (VP (VBZ barks))))\n(1 (_ a) (0 b)) (0 c)\n")
    first, second, third = Trees(path)
    assert (first.leaves, first.labels[-1], first.line) == (["the", "dog", "barks"], None, 1)
    assert (second.labels, second.line) == ([None, "0", "1"], 5)
    assert third.words == ["c"]


def test_a_deep_tree(tmp_path):
    deep = "(1 " * 50_000 + "(0 x)" + ")" * 50_000
    tree = Tree.parse(deep)
    assert len(tree) == 50_001
    assert str(tree) == deep


BAD = {
    "(1 (0 (0 a)": "lacks 2 closing brackets; close all of its brackets",
    "(1 (0 a)\n(0 b)": "t.txt:1: the tree that begins here lacks 1 closing bracket",
    "(1 (0 a))\n\n(0 b))": "t.txt:3: a closing bracket too many",
    "hello": "t.txt:1: 'hello' is outside all brackets",
    "(1 a b)": "the word 'b' is next to the word 'a'",
    "(1 (0 a) b)": "the word 'b' is next to nodes",
    "(1 a (0 b))": "the word 'a' has a node beside it",
    "(1)": "(1) has neither a word nor nodes",
    "()": "() has neither",
    "  \n": "there is no tree in it",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_brackets(tmp_path, text):
    path = tmp_path / "t.txt"
    path.write_text(text)
    with pytest.raises(DataError) as found:
        list(Trees(path))
    assert BAD[text] in str(found.value)


def row(number, word, head, misc="_"):
    return f"{number}\t{word}\t_\t_\t_\t_\t{head}\t_\t_\t{misc}\n"


def test_dependencies(tmp_path):
    path = tmp_path / "t.conllu"
    path.write_text(
        "# label = 3\n1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n"
        + row(1, "the", 2)
        + row(2, "dog", 3, "SpaceAfter=No|Label=1")
        + row(3, "barks", 0)
        + row(4, "loudly", 3)
        + "\n"
        + row(1, "yes", 0)
    )
    first, second = Trees(path)
    assert str(first) == "(3 barks (1 dog (_ the)) (_ loudly))"
    assert second.labels == [None]


@pytest.mark.parametrize(
    ("rows", "said"),
    {
        "head": ([(1, "a", 0), (2, "b", 7)], "t.conllu:2: 'b' has the head 7, but the sentence has 2 words"),
        "circle": ([(1, "a", 0), (2, "b", 3), (3, "c", 2)], "t.conllu:2: the heads of 'b' form a cycle"),
        "two roots": ([(1, "a", 0), (2, "b", 0)], "t.conllu:1: the sentence has 2 words with head 0"),
        "no number": ([(1, "a", "_")], "'_' is not the number of a head"),
        "numbers": ([(1, "a", 0), (3, "b", 1)], "word '3' comes after 1 word"),
    }.values(),
)
def test_bad_dependencies(tmp_path, rows, said):
    path = tmp_path / "t.conllu"
    path.write_text("".join(row(*one) for one in rows))
    with pytest.raises(DataError) as found:
        list(Trees(path))
    assert said in str(found.value)


def test_a_head_of_thousands_of_digits(text_file):
    file = text_file("1\tHi\t_\t_\t_\t_\t" + "9" * 5000 + "\t_\t_\t_\n", "t.conllu")
    with pytest.raises(DataError, match=r"t\.conllu:1: '9+…?9*.* is not the number of a head") as caught:
        list(Trees(file))
    assert len(str(caught.value)) < 500
