"""Every lab: its verdicts follow from numbers.json, and its page has what a page must have."""

import html
import inspect
import json
import re
from xml.etree import ElementTree

import pytest

from carousel import lab
from carousel.lab import LABS, finding_class, latching
from carousel.lab.claim import SOURCES
from carousel.lab.claims import languages
from carousel.lab.finding import Finding, Step, typeset
from carousel.report import mathml, prose

LANGUAGES = languages.Setting(trained=4, tested=9, hidden=3, pool=10, batch=5, updates=2, networks=1)
LATCH = latching.Setting(relevant=3, irrelevant=10, longest=20, tests=20, hidden=4, batch=8, updates=2)
TINY = {
    "agreement": {"updates": 2, "hidden": 2, "seeds": 1},
    "attention": {"updates": 1, "seeds": 1},
    "beam": {"models": 4, "vocabulary": 3, "longest": 3, "widths": (1, 2)},
    "bidirectional": {"updates": 2, "hidden": 4, "seeds": 1},
    "bleu": {},
    "bptt": {"steps": 3, "hidden": 2, "inputs": 2, "seeds": 1},
    "clipping": {"steps": 60, "starts": 4},
    "compile-dfa": {"shortest": 4, "longest": 20, "strings": 2, "largest": 10},
    "coupled": {"steps": 5, "hidden": 2, "updates": 2, "seeds": 1},
    "embedding": {"updates": 10, "lines": 16, "seeds": 1},
    "forget-argmax": {"units": 2, "samples": 50},
    "hankel": {"patterns": ["(ab)*"], "units": 4, "steps": 5, "unseen": 20, "seeds": 1},
    "hyperparameters": {"updates": 20, "seeds": 1},
    "initialisation": {"cells": ["rnn"], "hidden": 3, "lines": 64, "epochs": 1, "seeds": 1},
    "jacobian": {"steps": 6, "hidden": 2, "seeds": 1},
    "languages": {"languages": ["anbn"], "cells": ["rnn", "lstm"], "setting": LANGUAGES},
    "latch": {"setting": LATCH, "cells": ["rnn", "lstm"], "seeds": 1},
    "optimizers": {"rates": (0.05,), "lines": 64, "epochs": 1, "seeds": 1},
    "overfitting": {"updates": 10, "hidden": 4, "seeds": 1},
    "parameters": {"horizons": (1, 10)},
    "random-k": {"updates": 2, "texts": 3, "hidden": 4, "seeds": 1},
    "rnn-in-lstm": {"networks": 1, "steps": 12, "hidden": 3},
    "saddle": {"lr": 0.1, "seeds": 1},
    "sentiment": {"longest": 3},
    "softmax": {"words": 3, "hidden": 2, "seeds": 1},
    "stack": {"length": 3, "exact": 2},
    "teacher-forcing": {"updates": 10, "seeds": 1},
    "turing": {"length": 1, "longest": 12},
    "vanishing": {"steps": 20, "hidden": 3, "seeds": 1},
    "working-memory": {"updates": 2, "hidden": 4, "seeds": 1},
}


@pytest.fixture(scope="module", params=[pytest.param(name, marks=pytest.mark.slow) for name in TINY])
def written(request, tmp_path_factory):
    """A lab that was run and written: the finding, its page and its numbers.json."""
    finding = lab.module_of(request.param).run(**TINY[request.param])
    page = finding.write(tmp_path_factory.mktemp(request.param) / "page")
    return finding, page.read_text("utf-8"), json.loads((page.parent / "numbers.json").read_text("utf-8")), page.parent


def test_verdicts_follow_from_the_saved_numbers(written):
    finding, page, numbers, folder = written
    again = lab.verdicts(folder)
    assert again == finding.verdicts() == lab.verdicts(folder / "numbers.json")
    assert list(again) == [claim.key for claim in finding.claims]
    for key, verdict in again.items():
        saved = numbers["verdicts"][key]
        assert (verdict.outcome, verdict.cases, verdict.reason) == (saved["outcome"], saved["cases"], saved["reason"])
        assert f"<em>{prose(typeset(str(verdict).partition('. ')[0]))}.</em> {prose(typeset(verdict.reason))}" in page


def test_lead_and_table_follow_from_the_saved_numbers(written):
    finding, page, numbers, _ = written
    kind = lab.finding_class(numbers["lab"])
    assert kind is type(finding)
    assert f'<p class="lead">{prose(kind.lead(numbers))}</p>' in page
    columns, rows = kind.table(numbers)
    assert rows
    assert all(len(row) == len(columns) for row in rows)
    assert all(prose(entry) in page for row in rows for entry in row)


def test_a_verdict_can_fall(written):
    """Every claim is decided by the numbers: it is a function of them and of nothing else."""
    finding, _, _, _ = written
    for claim in finding.claims:
        assert list(inspect.signature(claim.decide).parameters) == ["numbers", "tolerance"]
        assert claim.where[:3] in SOURCES
        assert claim.quote in finding.decision()


def test_each_step_of_a_derivation_is_checked(written):
    finding, page, numbers, _ = written
    for step in finding.derivation:
        assert numbers["derivation"][step.key] <= step.tolerance
        assert mathml(step.tex, display=True) in page
        assert prose(step.result(numbers["derivation"][step.key])) in page
        relations = re.sub(r"_\{[^{}]*\}", "", step.tex)  # without the bounds of sums and products
        assert step.inequality == bool(re.search(r"\\(le|ge|leq|geq)\b", relations)), step.tex


def test_a_step_says_how_far_its_sides_are_apart():
    equation, bound = Step("", "", "", 1e-9), Step("", "", "", 1e-9, inequality=True)
    assert equation.result(0.0) == "In this run the two sides agree exactly."
    assert equation.result(2e-10) == "In this run the two sides agree: at most 2·10⁻¹⁰ apart (tolerance 1·10⁻⁹)."
    assert equation.result(0.5).startswith("In this run *the two sides do not agree*: at most 0.5 apart")
    assert bound.result(0.0) == "In this run the inequality holds throughout."
    assert bound.result(0.5).startswith("In this run *the inequality does not hold*: exceeded by at most 0.5")


def test_a_page_teaches(written):
    finding, page, numbers, _ = written
    assert 2 <= len(finding.exercises) <= 3
    assert page.count("<details>") == len(finding.exercises)
    assert html.escape(finding.code.strip()) in page
    assert ("training amplifies the last bits" in page) == finding.trains
    assert f'"isa": "{numbers["isa"]}"' in json.dumps(finding.saved())
    for formula in re.findall(r"<math.*?</math>", page, re.S):
        ElementTree.fromstring(formula)


def test_the_code_of_a_page_runs(written):
    finding, _, _, _ = written
    exec(finding.code, {})


def test_every_lab_is_tested_here():
    assert set(TINY) == set(LABS)
    assert all(issubclass(lab.finding_class(name), Finding) for name in LABS)


def test_no_two_claims_are_of_one_sentence():
    """A sentence of a source has one verdict: no part of a quotation stands in another."""
    claims = [claim for name in LABS for claim in lab.finding_class(name).claims]
    parts = [(claim, part) for claim in claims for part in re.split(" ?… ?", claim.quote) if len(part) > 20]
    twice = {
        (claim.key, other.key)
        for claim, part in parts
        for other in claims
        if other is not claim and other.where[:3] == claim.where[:3] and part in other.quote
    }
    assert not twice


def test_what_is_shown_as_printed_is_printed():
    """No formula of this package stands under a source's name, and no erratum is corrected silently."""
    claims = {(name, claim.key): claim for name in lab.LABS for claim in finding_class(name).claims}
    forget = claims["jacobian", "forget"]
    assert forget.printed[0].endswith(r"= U_f \cdot \sigma'(W_f x_t + U_f h_{t-1})")
    assert r"\text{diag}" in forget.corrected[0]
    own = ("H_x", "P^{+}", "H[", "relu", "|h|", r"\partial^{+}")  # of hankel, compile-dfa, languages and bptt
    shown = [(key, tex) for key, claim in claims.items() for tex in claim.printed]
    assert not [(key, tex) for key, tex in shown if any(part in tex for part in own)]
    assert all(claim.printed for claim in claims.values() if claim.corrected and claim.key != "value")
    assert r"\sqrt{v_t + \epsilon}" in claims["saddle", "formula"].printed[1]
    assert r"\sqrt{v_t} + \epsilon" in claims["saddle", "formula"].corrected[0]
