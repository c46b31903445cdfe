"""The metrics that choose the best epoch of each task."""


def test_what_decides_is_among_the_results(small_model):
    """A tie of something other than a perplexity or an error is real, and is broken by a result."""
    metric = small_model[0].network.metric()
    found = metric.result()
    assert metric.best in found
    assert metric.lower_is_better or metric.tie_breaker in found
