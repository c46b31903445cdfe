"""The whole book: a page for each lab, and one whose links lead to them."""

import re

import pytest

from carousel.lab.book import write_book


def test_every_page_is_there_and_every_link_leads_to_one(tmp_path):
    said = []
    page = write_book(
        tmp_path / "book", ["sentiment", "parameters", "jacobian"], command="carousel lab all", say=said.append
    )
    html = page.read_text("utf-8")
    links = re.findall(r'<a href="([^"]+)"', html)
    assert links == ["sentiment/index.html", "parameters/index.html", "jacobian/index.html"]
    for link in links:
        assert "hold?" in (page.parent / link).read_text("utf-8")
    assert [line.split()[0] for line in said] == ["sentiment", "parameters", "jacobian"]
    assert "does not hold as printed" in said[0]
    assert "12 claims of the sources: 5 holds, 2 holds for and 5 does not hold as printed." in html


def test_a_lab_that_is_none(tmp_path):
    with pytest.raises(ValueError, match=r"names must be some of .*beam, .*; got blue"):
        write_book(tmp_path / "book", ["bleu", "blue"])
    with pytest.raises(ValueError, match="got none"):
        write_book(tmp_path / "book", [])
    assert not list(tmp_path.iterdir())
