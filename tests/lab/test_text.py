"""Dates as small text: against the strings they come from, and a perplexity by hand."""

import math

import torch

from carousel.data.corpora.dates import split_dates, write_dates
from carousel.lab.text import END, PAD, START, dates, draw, loss, perplexity


class Uniform(torch.nn.Module):
    """Every token is as probable as any other."""

    def forward(self, tokens):
        return torch.zeros(*tokens.shape, dates(40).tokens)


def test_lines_are_the_dates_with_a_start_and_an_end():
    lines = dates(40)
    learn, other = split_dates(300, 0)
    for tokens, days, count in ((lines.train, learn, 40), (lines.dev, other, 300)):
        expected = [one.text for one in write_dates(days, count, 0)]
        rows = tokens.T.tolist()
        assert [lines.text(row[1:]) for row in rows] == expected
        assert {row[0] for row in rows} == {START} and all(END in row for row in rows)


def test_perplexity_of_chance_is_the_number_of_tokens():
    lines = dates(40)
    assert math.isclose(perplexity(Uniform(), lines.dev), lines.tokens, rel_tol=1e-5)


def test_padding_has_no_part_in_the_loss():
    lines = dates(40)
    padded = torch.cat((lines.train, torch.full((7, 40), PAD)))
    torch.testing.assert_close(loss(Uniform(), padded), loss(Uniform(), lines.train))


def test_what_is_drawn_has_no_more_padding_than_it_needs():
    lines = dates(40)
    known = {tuple(row) for row in lines.train.T.tolist()}
    some = draw(lines.train, 3)
    assert (some[-1] != PAD).any()
    full = torch.cat((some, torch.full((len(lines.train) - len(some), 3), PAD)))
    assert {tuple(row) for row in full.T.tolist()} <= known
