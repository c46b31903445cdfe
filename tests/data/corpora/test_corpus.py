"""The parts of a corpus, and the files that it becomes."""

from carousel.data import corpora


def test_parts_are_tenths_and_depend_on_the_text_alone():
    found = [corpora.part_of(f"item {n}") for n in range(10_000)]
    assert found == [corpora.part_of(f"item {n}") for n in range(10_000)]
    for part, share in (("train", 0.8), ("dev", 0.1), ("test", 0.1)):
        assert abs(found.count(part) / 10_000 - share) < 0.015


def test_a_file_of_lines_counts_them():
    assert corpora.corpus.File.of_lines(iter(["a", "", "b"])) == ("a\n\nb\n", 3)
    assert corpora.corpus.File.of_lines([]) == ("", 0)


def test_every_corpus_says_where_it_comes_from_and_what_to_try():
    for name, corpus in corpora.CORPORA.items():
        assert corpus.name == name
        languages = {"source": "en", "target": "tr"} if corpus.languages else {}
        assert corpus.command.format(out="here", **languages).startswith("carousel train ")
    assert "Wall Street Journal" in corpora.find("ptb").title
