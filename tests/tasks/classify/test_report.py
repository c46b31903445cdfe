"""The classifier's report."""

from html import unescape

import pytest
from helpers.pages import figures, rows

import carousel

EVIL = "<script>alert(1)</script> *dull*"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evil")
    data = [("warm film", "<b>good</b>"), (EVIL, "bad"), ("dull plot here", "bad"), ("fine", "<b>good</b>")] * 3
    train, dev = folder / "train.tsv", folder / "dev.tsv"
    train.write_text("".join(f"{text}\t{label}\n" for text, label in data), "utf-8")
    dev.write_text("".join(f"{text}\t{label}\n" for text, label in [*data[:4], (EVIL, "<b>good</b>")]), "utf-8")
    options = {"hidden": 4, "embedding": 4, "epochs": 1, "threads": 1, "quiet": True, "cache": folder / "cache"}
    carousel.train("classify", train, dev=dev, out=folder / "run", **options)
    return folder / "run"


def test_misclassified_texts_with_their_confidence_worst_first(run):
    model, html = carousel.load(run), (run / "report.html").read_text("utf-8")
    table = [line.split("\t") for line in model.settings.dev.read_text("utf-8").splitlines()]
    pairs = zip(model.predict(text for text, _ in table), table, strict=True)
    wrong = [one.confidence for one, (_, label) in pairs if one.label != label]
    assert wrong  # one text has both labels
    shown = rows(html, "text", "true", "predicted", "confidence")
    assert [row[3] for row in shown] == [f"{confidence:.3f}" for confidence in sorted(wrong, reverse=True)]


def test_nothing_of_the_data_is_markup(run):
    html = (run / "report.html").read_text("utf-8")
    assert "<script>alert(1)" not in html
    assert "<b>good" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; *dull*" in html
    confusion = figures(html)[1]
    assert confusion["layout"]["xaxis"]["ticktext"] == ["&lt;b&gt;good&lt;/b&gt;", "bad"]  # plotly reads tags, too


def test_a_constant_learning_rate_is_on_an_axis_that_shows_it(run):
    curves = figures((run / "report.html").read_text("utf-8"))[0]
    rates = next(trace for trace in curves["data"] if trace["name"] == "learning rate")
    axis = curves["layout"]["yaxis" + rates["yaxis"][1:]]
    assert axis["range"] == [0, pytest.approx(1.5 * rates["y"][0])]


def test_what_it_is_called_and_how_long_it_took(run):
    html = (run / "report.html").read_text("utf-8")
    assert "Classifier with" in html
    assert " seconds." in html


def test_the_n_grams_that_tell_and_their_share(run):
    model, html = carousel.load(run), (run / "report.html").read_text("utf-8")
    shown = rows(html, "class", "n-grams")
    assert [unescape(row[0]) for row in shown] == model.labels
    assert unescape(shown[1][1]).split(", ")[0] == model.assets.linear.strongest(1)[1][0][0]
    share = float(model.network.mixture[0])
    assert f"a share of <em>{share:.0%}</em>" in html and f") one of <em>{1 - share:.0%}</em>." in html
