"""The benchmark of processes and hosts: its model against a simulated ring, and one run on a tiny network."""

import json

import pytest

from carousel.bench import scale

COST = scale.Cost(step=0.004, sequence=0.0005, bytes=6_000_000, messages=4, rate=1e9, latency=1e-4)


def ring(hosts, size, rate, latency):
    """Seconds until every host has the sum, round by round: each sends one part of `hosts` to the next at a time."""
    return sum(latency + size / hosts / rate for _ in range(2) for _ in range(hosts - 1))


@pytest.mark.parametrize("hosts", [2, 4, 16])
def test_exchange_is_a_ring(hosts):
    large = ring(hosts, COST.bytes, COST.rate, COST.latency)
    small = ring(hosts, 0, COST.rate, COST.latency)
    assert COST.exchange(hosts) == pytest.approx(large + 3 * small)


@pytest.mark.parametrize("hosts", [2, 4, 64])
def test_batch_sizes_where_hosts_pay(hosts):
    even, half = COST.pays_from(hosts), COST.half_from(hosts)
    assert COST.speed(hosts, even) == pytest.approx(COST.speed(1, even))
    assert COST.speed(hosts, 0.9 * even) < COST.speed(1, 0.9 * even)
    assert COST.speed(hosts, half) == pytest.approx(hosts / 2 * COST.speed(1, half))


@pytest.mark.slow
def test_measures_a_tiny_network(tmp_path, capsys):
    size = {"steps": 5, "batch": 8, "vocabulary": 50, "embedding": 8, "hidden": 8, "layers": 1, "lr": 0.01,
            "optimizer": "adam"}  # fmt: skip
    scale.main(tmp_path / "b", steps=8, rounds=1, sizes={"tiny": size})
    model = json.loads((tmp_path / "b" / "scale.json").read_text())["models"]["tiny"]
    parameters = 50 * 8 + (8 + 8 + 2) * 32 + 8 * 50 + 50
    assert model["exchange"]["bytes"] == 4 * parameters
    assert model["exchange"]["seconds"] > 0
    assert [row["hosts"] for row in model["hosts"]] == [2, 4, 16, 64]
    assert "two processes" in capsys.readouterr().out
