"""The random numbers of a row against SplitMix64 in Python's own integers."""

import numpy as np
import pytest
import torch

from carousel.decoding.rng import Uniforms, read_seed, uniforms

MASK = 2**64 - 1


def splitmix64(seed):
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        z = seed
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def test_against_the_published_generator():
    stream = splitmix64(1234567)
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    numbers = [next(stream) for _ in range(4)]
    assert numbers == published
    assert uniforms(np.array([1234567], np.uint64), 0, 4)[0].tolist() == [(n >> 32) / 2**32 for n in numbers]
    assert uniforms(np.array([1234567], np.uint64), 2, 2)[0].tolist() == [(n >> 32) / 2**32 for n in numbers[2:]]


def test_a_row_has_its_numbers_wherever_it_stands():
    items, copies = np.array([3, 9, 4]), np.array([0, 1, 0])
    noise = Uniforms(5, items, copies)
    alone = Uniforms(5, items[1:2], copies[1:2])
    for position in (0, 1, 63, 64, 200, 201):
        if position == 63:
            noise.select(np.array([2, 1]))
        assert noise.at(position)[1] == alone.at(position)[0]


def test_rows_seeds_copies_and_positions_all_matter():
    grid = np.stack([np.repeat(np.arange(40), 5), np.tile(np.arange(5), 40)])
    drawn = [Uniforms(seed, *grid).at(t) for seed in (0, 1, -1, 2**60) for t in range(20)]
    drawn = np.concatenate(drawn)
    assert len(np.unique(drawn)) > len(drawn) - 3
    assert drawn.mean() == pytest.approx(0.5, abs=0.01)
    assert drawn.var() == pytest.approx(1 / 12, abs=0.002)


def test_seeds_from_torch():
    torch.manual_seed(3)
    first = read_seed(None)
    torch.manual_seed(3)
    assert read_seed(None) == first != read_seed(None)
    with pytest.raises(TypeError, match=r"seed must be an int, a torch.Generator or None, got str"):
        read_seed("7")
    with pytest.raises(ValueError, match="seed must lie between"):
        read_seed(2**64)
