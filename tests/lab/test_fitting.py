"""Small trainings: against torch's own loop, and random numbers that return."""

import torch
from torch import nn

from carousel.lab.cells import plain_cells
from carousel.lab.fitting import Reader, by_cell, fit, mean_path, next_token_loss, record, seed_by_seed, seeded
from carousel.layers import GRU


def test_random_numbers_and_threads_return():
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    with seeded(3):
        first = torch.randn(4)
        assert torch.get_num_threads() == 1
    assert torch.equal(torch.random.get_rng_state(), before) and torch.get_num_threads() == threads
    with seeded(3):
        assert torch.equal(torch.randn(4), first)


def test_a_training_is_adam_with_clipped_gradients():
    torch.manual_seed(0)
    ours, theirs = nn.Linear(3, 1), nn.Linear(3, 1)
    theirs.load_state_dict(ours.state_dict())
    x, y = 10 * torch.randn(8, 3), torch.randn(8, 1)
    seen = []
    losses = fit(ours, lambda: (ours(x) - y).square().mean(), 5, lr=0.1, clip=0.5, watch=lambda *one: seen.append(one))
    optimizer = torch.optim.Adam(theirs.parameters(), lr=0.1)
    for update, loss in enumerate(losses, 1):
        optimizer.zero_grad()
        value = (theirs(x) - y).square().mean()
        value.backward()
        assert theirs.weight.grad.norm() > 0.5  # so that it is clipped
        nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        optimizer.step()
        assert loss == value.item() and seen[update - 1] == (update, loss)
    assert torch.equal(ours.weight, theirs.weight)


def test_a_table_by_seed():
    rows = [{("near", 3): 0.1, ("far", 3): 0.2}, {("near", 3): 0.3, ("far", 3): 0.4}]
    assert seed_by_seed(rows) == {"near": {"3": [0.1, 0.3]}, "far": {"3": [0.2, 0.4]}}


def test_a_reader_does_not_read_padding():
    reader = Reader(GRU(4, 5), 7, 3)
    tokens = torch.randint(7, (6, 2))
    short = reader(tokens[:4, 1:])
    torch.testing.assert_close(reader(tokens, torch.tensor([6, 4]))[:4, 1:], short)


def test_what_is_recorded_and_its_mean():
    network, values = nn.Linear(1, 1), iter([0.5, 0.25])
    path, watch = record(2, lambda: next(values))
    fit(network, lambda: network.weight.sum(), 5, watch=watch)
    assert path == [0.5, 0.25]  # after the second and the fourth update
    assert mean_path([path, [1.5, 0.75]]) == [1.0, 0.5]


def test_each_cell_with_each_seed():
    measured = by_cell(plain_cells(), lambda layer, seed: {(layer(1, 2).hidden_size, "h"): float(seed)}, [3, 4])
    assert measured == {name: {"2": {"h": [3.0, 4.0]}} for name in ("RNN", "GRU", "LSTM")}


def test_the_loss_of_the_next_token_by_hand():
    class Successor(nn.Module):
        def forward(self, tokens):
            return 50.0 * nn.functional.one_hot(tokens + 1, 5).float()

    tokens = torch.tensor([[0, 1], [1, 2], [2, 4]])  # the last of the second column is no successor
    assert next_token_loss(Successor(), tokens).item() == 50 / 4
    assert next_token_loss(Successor(), tokens, ignore=4).item() == 0
