"""Verse: generated poems against regular expressions and rhyme tables."""

import itertools
import re

import pytest
from helpers.toys import Toy

from carousel.decoding import (
    Acrostic,
    Beam,
    ConstraintError,
    Form,
    Greedy,
    NoRepeat,
    Pattern,
    RandomK,
    Rhyme,
    Sample,
    search,
)

SPECIAL = ["[PAD]", "[START]", "[END]", "[UNK]"]
CHARACTERS = "日月山水風花雪夜春秋江湖海天雲雨人心白紅青長高深明清寒遠歸來去飛生開落聲色光影"
WORDS = [*SPECIAL, "，", "。", "？", "、", *CHARACTERS]
ID = {word: k for k, word in enumerate(WORDS)}
MARKS = {mark: ID[mark] for mark in "，。？、"}
NO_CHARACTERS = [ID["[PAD]"], ID["[START]"], ID["[UNK]"]]
ASK = {"start": ID["[START]"], "end": ID["[END]"], "max_length": 80, "seed": 5}
CHARACTER = "[^，。？、\\[\\]]"


def text(prompt, h):
    assert h.finished
    return "".join(WORDS[t] for t in (*prompt, *h.tokens[:-1]))


def poems(strategy, rules, prompts=8, seed=1):
    prompts = [()] * prompts if isinstance(prompts, int) else prompts
    found = search(Toy(len(WORDS), seed).stepper(), prompts, strategy, constraints=rules, **ASK)
    return [text(p, h) for p, hypotheses in zip(prompts, found, strict=True) for h in hypotheses]


@pytest.mark.parametrize(
    ("name", "couplets", "length"), [("五言絕句", 2, 5), ("七言絕句", 2, 7), ("五言律詩", 4, 5), ("七言律詩", 4, 7)]
)
@pytest.mark.parametrize("strategy", [Greedy(), Sample(RandomK(20), copies=3), Beam(4, n_best=4)], ids=repr)
def test_named_forms(name, couplets, length, strategy):
    prompts = [(), (ID["日"],), (ID["山"], ID["水"], ID["風"])]
    for poem in poems(strategy, [Form(name, MARKS, NO_CHARACTERS)], prompts):
        assert re.fullmatch(f"({CHARACTER}{{{length}}}，{CHARACTER}{{{length}}}。){{{couplets}}}", poem)


def test_a_form_of_ones_own():
    """如夢令's first three lines: 6, 6 and 5 characters, and another mark at the end."""
    form = Form(Pattern(3, (6, 6, 5), ("，", "，", "。？")), MARKS, NO_CHARACTERS)
    for poem in poems(Sample(), [form]):
        assert re.fullmatch(f"{CHARACTER}{{6}}，{CHARACTER}{{6}}，{CHARACTER}{{5}}。？", poem)


def test_acrostics():
    form = Form("五言絕句", MARKS, NO_CHARACTERS)
    for heads, breaks, places in (("春夏秋冬", "，。", (0, 6, 12, 18)), ("日月", "。", (0, 12))):
        heads = heads.replace("夏", "花").replace("冬", "雪")
        rule = Acrostic([ID[c] for c in heads], [MARKS[m] for m in breaks])
        for poem in poems(Sample(RandomK(9)), [form, rule]) + poems(Beam(3), [form, rule]):
            assert [poem[p] for p in places] == list(heads)
            assert len(poem) == 24


RHYMES = {ID[c]: kind for kind, cs in {"ang": "長光江", "ing": "明清青聲生", "an": "寒山天遠"}.items() for c in cs}


@pytest.mark.parametrize("strategy", [Greedy(), Sample(RandomK(20), copies=4), Beam(4, n_best=4)], ids=repr)
@pytest.mark.parametrize("given", [None, "an"])
def test_rhymes(strategy, given):
    rules = [Form("五言律詩", MARKS, NO_CHARACTERS), Rhyme("五言律詩", RHYMES, given=given)]
    kinds = set()
    for poem in poems(strategy, rules):
        ends = [poem[p] for p in (10, 22, 34, 46)]
        [kind] = {RHYMES[ID[c]] for c in ends}
        assert len(set(ends)) == 4
        assert given in (None, kind)
        assert kind != "ang"  # which has only three characters
        kinds.add(kind)
    assert given or isinstance(strategy, Greedy | Beam) or len(kinds) == 2


def test_all_at_once():
    rules = [
        Form("五言絕句", MARKS, NO_CHARACTERS),
        Acrostic([ID[c] for c in "日月山水"], [MARKS["，"], MARKS["。"]]),
        Rhyme("五言絕句", RHYMES, lines=[1, 2, 4], given="ing"),
        NoRepeat(2, ignore=MARKS.values()),
    ]
    for strategy in (Greedy(), Sample(), Beam(5)):
        for poem in poems(strategy, rules):
            assert re.fullmatch("日....，月....。山....，水....。".replace(".", CHARACTER), poem)
            assert all(RHYMES[ID[poem[p]]] == "ing" for p in (4, 10, 22))
            pairs = [a + b for line in re.split("[，。]", poem) for a, b in itertools.pairwise(line)]
            assert len(set(pairs)) == len(pairs) == 16


def test_a_prompt_out_of_form():
    form = Form("五言絕句", MARKS, NO_CHARACTERS)
    with pytest.raises(ConstraintError, match=r"prompts\[0\] breaks Form\(4 lines of 5\) at its token 1, 4"):
        poems(Greedy(), [form], [(ID["日"], ID["，"])])


def test_an_acrostic_longer_than_its_form_is_named():
    rules = [Form("五言絕句", MARKS, NO_CHARACTERS), Acrostic([ID["日"]] * 5, [MARKS["，"], MARKS["。"]])]
    with pytest.raises(ConstraintError, match=r"position 24 of item 0: .* Form\(.*\) leaves 1, Acrostic.* leaves none"):
        poems(Greedy(), rules)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pattern(0, 5), "lines must be at least 1, got 0"),
        (lambda: Pattern(2, 0), "length must be a number above 0, or one for each of the 2 lines, got 0"),
        (lambda: Pattern(2, (5, 5, 5)), "one for each of the 2 lines"),
        (lambda: Pattern(2, 5, ""), "punctuation is empty"),
        (lambda: Form("五言絕句", {"，": 4}), "punctuation has no token for 。"),
        (lambda: Rhyme("五言絕句", {}), "classes is empty"),
        (lambda: Rhyme("五言絕句", RHYMES, lines=[5]), r"lines must lie between 1 and 4, the pattern's, got \[5\]"),
        (lambda: Rhyme("五言絕句", RHYMES, given="ong"), "no token has the given class 'ong'"),
    ],
)
def test_options_out_of_range(make, message):
    with pytest.raises(ValueError, match=message):
        make()
