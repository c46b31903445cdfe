"""Counts of parameters: by hand."""

import pytest

from carousel import lab


def test_counts_by_hand():
    found = lab.parameters([1, 3, 8], inputs=2, hidden=5, outputs=4)
    counts = {kind.label: kind.counts for kind in found.kinds}
    head = 5 * 4 + 4
    assert counts["fully connected"] == tuple(t * 2 * 5 + 5 + head for t in (1, 3, 8))
    for stride, layers in ((1, (1, 1, 4)), (2, (1, 1, 3))):  # two layers of stride 2 see 7 steps, three 15
        expected = tuple(2 * 5 * 3 + 5 + (n - 1) * (5 * 5 * 3 + 5) + head for n in layers)
        assert counts[f"convolutional, stride {stride}"] == expected
    assert counts["RNN (tanh)"] == (2 * 5 + 5 * 5 + 2 * 5 + head,) * 3
    assert counts["LSTM"] == (4 * (2 * 5 + 5 * 5 + 2 * 5) + head,) * 3
    assert counts["GRU"] == (3 * (2 * 5 + 5 * 5 + 2 * 5) + head,) * 3
    shorts = {key: verdict.short for key, verdict in lab.parameters().verdicts().items()}
    holds = {"connected": "holds", "shared": "holds", "tensors": "holds"}
    assert shorts == {**holds, "convolutional": "holds for stride 2"}
    assert "105,674 with stride 2" in lab.parameters().decision()
    with pytest.raises(ValueError, match="horizons must be some numbers from 1 on"):
        lab.parameters([0])
