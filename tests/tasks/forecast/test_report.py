"""What a forecaster's report shows."""

import pytest
from helpers.pages import figures, rows

import carousel


def test_the_report_reaches_beyond_the_data(trained):
    page = (trained / "report.html").read_text("utf-8")
    assert all(f"2000-{month:02d}" in page for month in range(1, 7))  # the data ends in 1999-12


def test_the_forecast_beyond_the_data_is_that_of_predict(trained):
    page, model = (trained / "report.html").read_text("utf-8"), carousel.load(trained)
    expected = model.predict(model.settings.train).rows()
    shown = rows(page, "time", "forecast", "low", "high")
    assert [row[0] for row in shown] == [one["time"] for one in expected]
    for row, one in zip(shown, expected, strict=True):
        assert [float(cell) for cell in row[1:]] == pytest.approx([one["forecast"], one["q0.1"], one["q0.9"]], rel=1e-4)


def test_the_plot_ends_with_it(trained):
    page, model = (trained / "report.html").read_text("utf-8"), carousel.load(trained)
    traces = {trace.get("name"): trace for trace in figures(page)[-1]["data"]}
    expected = model.predict(model.settings.train)
    assert traces["forecast beyond the data"]["x"] == expected.times
    assert traces["forecast beyond the data"]["y"] == pytest.approx(expected.median[:, 0].tolist())
