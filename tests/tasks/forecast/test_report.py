"""What a forecaster's report shows."""


def test_the_report_reaches_beyond_the_data(trained):
    page = (trained / "report.html").read_text("utf-8")
    assert all(f"2000-{month:02d}" in page for month in range(1, 7))  # the data ends in 1999-12
