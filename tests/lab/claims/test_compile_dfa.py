"""Automata as weights: against Python's regular expressions, and counting by hand."""

import pytest

from carousel import lab


@pytest.mark.parametrize("pattern", ["[ab]*c", "a{2}", "(ab){1,3}c?", "[^a]{2}|a+", "[a-c]c"])
def test_the_lab_judges_classes_and_counts_as_python_does(pattern):
    result = lab.compile_dfa([pattern], shortest=6, longest=20, strings=2, largest=3)
    assert result.languages[0].wrong_short == 0
    assert result.verdicts()["recognized"].short == "holds"


def test_the_lab(tmp_path):
    found = lab.compile_dfa(["ab*", "(ab)*"], shortest=5, longest=50, strings=3, largest=30)
    shorts = [verdict.short for verdict in found.verdicts().values()]
    assert shorts == ["holds", "holds", "does not hold as printed"]
    assert found.stack["others"][0] == "abab"
    catalan = [1, 1, 2, 5, 14, 42, 132]  # strings of n pairs of brackets, from the empty one on
    assert found.stack["accepted"] == found.stack["balanced"] == found.stack["brackets"] == sum(catalan)
    assert found.stack["equal"] == len(catalan)  # aⁿbⁿ for n = 0 … 6
    assert [one.units for one in found.languages] == [7, 7]
    page = found.write(tmp_path / "page").read_text("utf-8")
    assert "Automata as weights" in page
    assert (tmp_path / "page" / "counter.svg").exists()
