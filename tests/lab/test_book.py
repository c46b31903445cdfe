"""The whole book: a page for each lab, and one whose links lead to them."""

import re

import pytest

from carousel.lab import LABS, finding_class
from carousel.lab.book import SLOW, write_book
from carousel.lab.claim import HEADINGS


def test_every_page_is_there_and_every_link_leads_to_one(tmp_path):
    finished = []
    page = write_book(
        tmp_path / "book", ["sentiment", "parameters"], quick=True, done=lambda name, *_: finished.append(name)
    )
    html = page.read_text("utf-8")
    links = set(re.findall(r'<a href="([^"]+)"', html))
    assert links == {"sentiment/index.html", "parameters/index.html"}
    assert all("Do they hold?" in (page.parent / link).read_text("utf-8") for link in links)
    assert finished == ["sentiment", "parameters"]
    assert "Of 7 claims of the sources, 4 hold, 1 holds for some cases and 2 do not hold as printed." in html
    assert html.index("000: M. Arora") < html.index("004: CIS 522")  # as the sources are numbered


def test_claims_stand_in_the_order_of_their_source(tmp_path):
    html = write_book(
        tmp_path / "book", ["sentiment", "rnn-in-lstm", "forget-argmax", "jacobian"], quick=True
    ).read_text()
    order = re.findall(r'data-name="place">([^<]+)<', html)
    assert order[:5] == [
        "question 1, equations 1 to 7", "question 1, equations 8 to 10", *["question 1, after equation 11"] * 2,
        "question 2",
    ]  # fmt: skip
    headings = [place for place in dict.fromkeys(order) if place in HEADINGS["001"]]
    assert headings == list(HEADINGS["001"])


def test_every_unnumbered_heading_is_known():
    for claim in (claim for name in LABS for claim in finding_class(name).claims):
        source, place = claim.where[:3], claim.where[4:]
        assert source not in HEADINGS or place.partition(", ")[0] in HEADINGS[source], claim.where


def test_an_interruption_keeps_what_is_done_and_resume_continues(tmp_path):
    def interrupt(name, outcomes, seconds):
        raise KeyboardInterrupt

    folder = tmp_path / "book"
    with pytest.raises(KeyboardInterrupt):
        write_book(folder, ["parameters", "sentiment"], quick=True, done=interrupt)
    html = (folder / "index.html").read_text("utf-8")
    assert "parameters/index.html" in html
    assert "Not run yet" in html and "sentiment." in html
    before = (folder / "parameters" / "numbers.json").stat().st_mtime_ns
    finished = []
    write_book(
        folder, ["parameters", "sentiment"], quick=True, resume=True, done=lambda name, *_: finished.append(name)
    )
    assert finished == ["sentiment"]
    assert (folder / "parameters" / "numbers.json").stat().st_mtime_ns == before
    assert "Not run yet" not in (folder / "index.html").read_text("utf-8")


def test_what_begins_first_are_labs():
    assert set(SLOW) < set(LABS)


def test_a_lab_that_is_none(tmp_path):
    with pytest.raises(ValueError, match=r"names must be some of agreement, .*; got blue"):
        write_book(tmp_path / "book", ["bleu", "blue"])
    assert not list(tmp_path.iterdir())
