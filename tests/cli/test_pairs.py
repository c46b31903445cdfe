"""`--dev` of two files, or of one that has both sides."""

import pytest

from carousel.cli.pairs import both


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a.en a.de --dev d.en d.de", "a.en a.de --dev d.en --dev d.de"),
        ("--dev d.en d.de a.en a.de", "--dev d.en --dev d.de a.en a.de"),
        ("--dev=d.en d.de --lr 1", "--dev=d.en --dev d.de --lr 1"),
        ("--dev d.tsv a.tsv", "--dev d.tsv a.tsv"),
        ("--dev d.en --lr 1", "--dev d.en --lr 1"),
        ("--dev", "--dev"),
        ("", ""),
    ],
)
def test_a_second_file_gets_its_own_option(given, expected):
    assert both(given.split()) == expected.split()
