"""What the report of a language model shows."""

from helpers.pages import rows
from helpers.tiny import fit, language

from carousel.tasks.runs import load_run


def test_the_report_has_the_lines_that_were_hardest_and_easiest(tmp_path):
    finished = fit(language(tmp_path, epochs=2), tmp_path / "run", report=True)
    html, model = finished.report.read_text("utf-8"), load_run(finished.folder)
    lines = model.settings.dev.read_text("utf-8").splitlines()
    expected = sorted(model.score(lines), key=lambda one: -one.perplexity)
    hardest = rows(html, "hardest", "least expected tokens", "perplexity")
    easiest = rows(html, "easiest", "least expected tokens", "perplexity")
    assert [row[2] for row in hardest] == [f"{one.perplexity:,.1f}" for one in expected[:4]]
    assert [row[2] for row in easiest] == [f"{one.perplexity:,.1f}" for one in expected[:-5:-1]]
