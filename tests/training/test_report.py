"""The report of a run."""

from helpers.pages import rows

from carousel.tasks.runs import load_run


def test_the_report(finished):
    html = finished.report.read_text("utf-8")
    assert "<code>carousel train lm &#x27;a b&#x27;</code>" in html or "carousel train lm" in html
    for told in ("training loss", "dev perplexity", "learning rate", "batch_size", "Best dev perplexity"):
        assert told in html
    assert "http://" not in html.split("<script")[0]
    assert "Language model with" in html
    settings = dict(rows(html, "key", "value"))
    assert settings["<code>variational</code>"] == "false" and "Path(" not in html.split("Settings</h2>")[1]


def test_the_report_has_the_lines_that_were_hardest_and_easiest(finished):
    html, model = finished.report.read_text("utf-8"), load_run(finished.folder)
    lines = model.settings.dev.read_text("utf-8").splitlines()
    expected = sorted(model.score(lines), key=lambda one: -one.perplexity)
    hardest = rows(html, "hardest", "least expected tokens", "perplexity")
    easiest = rows(html, "easiest", "least expected tokens", "perplexity")
    assert [row[2] for row in hardest] == [f"{one.perplexity:,.1f}" for one in expected[:4]]
    assert [row[2] for row in easiest] == [f"{one.perplexity:,.1f}" for one in expected[:-5:-1]]
