"""Both sides of the comparison do the same work."""

import torch

from carousel.bench.generation import END, START, Poet, compare_generation


def test_both_sides_draw_from_the_same_model():
    torch.manual_seed(0)
    poet = Poet(30, 8, 12)
    for draw in (poet.loop, poet.search):
        poems = draw(batch=3, length=7, k=4)
        assert [len(p) for p in poems] == [7] * 3 and not any(END in p for p in poems)
        for poem in poems:  # each token is one of the 4 best after those before it
            with torch.no_grad():
                y, _ = poet.lstm(poet.embed(torch.tensor([START, *poem[:-1]]))[:, None])
                best = poet.output(y[:, 0]).topk(4).indices
            assert all(token in row for token, row in zip(poem, best.tolist(), strict=True))


def test_rows():
    rows = compare_generation((1, 3), seconds=0.01, poems=6, length=4, vocabulary=20, embedding=4, hidden=8, k=2)
    assert [row["batch"] for row in rows] == [1, 3]
    for row in rows:
        assert row["ratio"] == row["torch"] / row["carousel"] > 0
