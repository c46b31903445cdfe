"""Sentences in columns; the conllu library is the independent reference for CoNLL-U."""

import conllu
import pytest

from carousel.data.sources.conll import Conll
from carousel.errors import DataError

UD = """\
# newdoc id = a
# text = He's in New York.
1-2	He's	_	_	_	_	_	_	_	SpaceAfter=No
1	He	he	PRON	PRP	_	4	nsubj	_	_
2	's	be	AUX	VBZ	_	4	cop	_	_
3	in	in	ADP	IN	_	4	case	_	_
3.1	the	the	DET	DT	_	_	_	4:det	_
4	New York	New York	PROPN	NNP	_	0	root	_	_
5	.	.	PUNCT	.	_	4	punct	_	_

# text = #1
1	#1	#1	NOUN	NN	_	0	root	_	_

"""


def file(folder, text, name="data.conll"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refused(path, **options):
    with pytest.raises(DataError) as error:
        list(Conll(path, **options))
    return str(error.value).replace(str(path.parent) + "/", "")


@pytest.mark.parametrize("column", ["upos", "xpos"])
def test_conllu_is_read_as_the_conllu_library_reads_it(tmp_path, column):
    found = list(Conll(file(tmp_path, UD), column))
    expected = [[token for token in s if isinstance(token["id"], int)] for s in conllu.parse(UD)]
    assert [s.words for s in found] == [[token["form"] for token in s] for s in expected]
    assert [s.tags for s in found] == [[token[column] for token in s] for s in expected]
    assert found[1].lines == [12]


@pytest.mark.parametrize("column, name", [("3", "lemma"), ("8", "deprel")])
def test_a_file_named_conllu_is_conllu_whatever_the_column(tmp_path, column, name):
    source = Conll(file(tmp_path, UD, "ud.conllu"), column)
    expected = [[token[name] for token in s if isinstance(token["id"], int)] for s in conllu.parse(UD)]
    assert [s.tags for s in source] == expected
    assert source.reading == f"CoNLL-U, words in column 2, tags in column {column} ({name})"
    line = refused(file(tmp_path, "a\tX\n", "names.conllu"), column="2")
    assert (
        line == "names.conllu: tags of CoNLL-U are not in column 2; choose column upos, xpos or a number from 3 to 10"
    )
    line = refused(file(tmp_path, "a\tX\n", "names.conllu"))
    assert line.endswith("or if the file has other columns, give it a name that ends in .conll")


def test_a_file_named_conllu_needs_no_column(tmp_path):
    (first, _) = Conll(file(tmp_path, UD, "ud.conllu"))
    assert first.tags == ["PRON", "AUX", "ADP", "PROPN", "PUNCT"]


@pytest.mark.parametrize("separator", ["\t", " ", "   "])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_columns(tmp_path, separator, end):
    rows = ["-DOCSTART- -X- O", "", "Ada NNP B-PER", "sat VBD O", "", " ", "#hi UH O"]
    text = "\ufeff" + end.join(row.replace(" ", separator) if row.strip() else row for row in rows)
    path = file(tmp_path, text)
    assert [(s.words, s.tags, s.lines) for s in Conll(path)] == [
        (["Ada", "sat"], ["B-PER", "O"], [3, 4]),
        (["#hi"], ["O"], [7]),
    ]
    assert [s.tags for s in Conll(path, "2")] == [["NNP", "VBD"], ["UH"]]
    assert [s.words for s in Conll(path, "3", word_column=2)] == [["NNP", "VBD"], ["UH"]]


def test_reading_again_gives_the_same(tmp_path):
    source = Conll(file(tmp_path, "a\tX\n\nb\tY\n"))
    assert list(source) == list(source)


def test_words_alone(tmp_path):
    assert [s[:2] for s in Conll(file(tmp_path, "Ada\nsat\n\nHi\n"), tagged=False)] == [
        (["Ada", "sat"], []),
        (["Hi"], []),
    ]
    assert [s.words for s in Conll(file(tmp_path, UD), "upos", tagged=False)][1] == ["#1"]


def test_blank_lines_and_white_space_part_sentences(tmp_path):
    found = list(Conll(file(tmp_path, "\n\na\tX\n\t\n \n\nb\tY\n\n\n")))
    assert [s.words for s in found] == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("text", "options", "line"),
    [
        ("a\tX\nb\n", {}, "data.conll:2: 1 column, where line 1 has 2; give each word all of its columns"),
        ("a\tX\nb\tY\tZ\n", {}, "data.conll:2: 3 columns, where line 1 has 2; give each word all of its columns"),
        ("a X\nb\n", {}, "data.conll:2: 1 column, where line 1 has 2; give each word all of its columns"),
        ("a X\nb\tY\n", {}, "data.conll:2: tabs between columns, where line 1 has spaces; use one of them throughout"),
        ("a\tX\nb Y\n", {}, "data.conll:2: no tabs between columns, where line 1 has tabs; use one of them throughout"),
        ("a\tX\n\n\tY\n", {}, "data.conll:3: there is no word in column 1; put one there"),
        ("a\tX\nb\t\n", {}, "data.conll:2: 'b' has no tag in column 2; give it one"),
        ("a\n", {}, "data.conll:1: one column, so its words have no tags; put a tab or a space between word and tag"),
        ("a X\n", {"column": "4"}, "data.conll:1: 2 columns, so tags are not in column 4; choose column from 1 to 2"),
        ("a X\n", {"column": "1"}, "data.conll:1: words and tags cannot both be in column 1; choose another "
         "column or word_column"),
        ("a X\n", {"word_column": 3}, "data.conll:1: 2 columns, so words are not in column 3; choose it "
         "with word_column, from 1 to 2"),
        ("\n \n", {}, "data.conll: there is no sentence in it; give a file with one word per line"),
        ("#\n\n", {"column": "upos"}, "data.conll: there is no sentence in it; give a file with one word per line"),
        (b"a\tX\nb\xff\tY\n", {}, "data.conll:2: byte 0xff at column 2 is not UTF-8; convert the file with iconv -f "
         "ENCODING -t utf-8"),
        ("a X\n", {"column": "upos"}, "data.conll:1: 1 column with tabs between, where CoNLL-U has 10; fix the line, "
         "or give the number of the column with the tags (column)"),
    ],
)  # fmt: skip
def test_bad_columns(tmp_path, text, options, line):
    assert refused(file(tmp_path, text), **options) == line


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("\t.\tPUNCT", "\t.", "data.conll:9: 9 columns with tabs between, where CoNLL-U has 10"),
        ("5\t.", "6\t.", "data.conll:9: word 6 comes after 4 words; number words from 1, without gaps"),
        ("5\t.", "x\t.", "data.conll:9: 'x' is not the number of a word; number words from 1"),
        ("_\n\n# text = #1", "_", "data.conll:10: word 1 comes after 5 words; put a blank line between sentences"),
        ("PUNCT", "_", "data.conll:9: '.' has no upos; give it one, or choose column='upos' or column='xpos'"),
        ("5\t.\t", "5\t\t", "data.conll:9: there is no word in column 2; put one there"),
    ],
)
def test_bad_conllu(tmp_path, old, new, line):
    assert old in UD
    assert refused(file(tmp_path, UD.replace(old, new)), column="upos").startswith(line)


@pytest.mark.parametrize("column", ["pos", "0", "-1", "1.5"])
def test_columns_that_are_none(tmp_path, column):
    with pytest.raises(ValueError, match="a column is upos, xpos or a number from 1"):
        Conll(file(tmp_path, "a X\n"), column)


def test_a_hundred_thousand_words_in_one_sentence(tmp_path):
    (found,) = Conll(file(tmp_path, "word\tX\n" * 100_000))
    assert len(found.words) == 100_000
