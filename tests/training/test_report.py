"""The report of a run."""

from helpers.pages import rows


def test_the_report(finished):
    html = finished.report.read_text("utf-8")
    assert "carousel train lm &#x27;a b&#x27;</code>" in html
    for told in ("training loss", "dev perplexity", "learning rate", "batch_size", "Best dev perplexity"):
        assert told in html
    assert "http://" not in html.split("<script")[0]
    assert "Language model with" in html
    settings = dict(rows(html, "key", "value"))
    assert settings["<code>dev_split</code>"] == "none"  # not marked: a dev file was given
    assert settings["<code>variational</code>"] == "false" and "Path(" not in html.split("Settings</h2>")[1]
