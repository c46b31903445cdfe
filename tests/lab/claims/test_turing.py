"""Turing machines by a network: answers by definition, and numbers that would make a claim fall."""

from carousel import lab
from carousel.lab.claims.turing import compare, example, outside_blocks
from carousel.lab.machines import as_stacks, compile_machine, palindromes, unary_increment


def test_all_short_tapes():
    row = compare(palindromes(), compile_machine(as_stacks(palindromes())), 2)
    assert row["tapes"] == 1 + 2 + 4 and row["wrong"] == row["answers"] == 0
    other = compare(unary_increment(), compile_machine(as_stacks(unary_increment())), 3)
    assert other["tapes"] == 4 and other["wrong"] == other["answers"] == 0


def test_a_network_that_lacks_a_weight_is_wrong():
    network = compile_machine(as_stacks(palindromes()))
    network.U[network.names.index("stack 1")] = {}
    assert compare(palindromes(), network, 2)["wrong"] > 0


def test_a_weight_outside_of_its_block_is_seen():
    network = compile_machine(as_stacks(unary_increment()))
    assert outside_blocks(network) == 0
    network.U[0][0] = 1
    assert outside_blocks(network) == 1


def test_the_tape_of_the_example_is_erased_from_both_ends():
    rows = example([1, 2, 2, 1])
    assert [cell for cell in rows[0] if cell] == [2, 2, 1]  # its first symbol is erased
    assert [2, 2] in [[cell for cell in row if cell] for row in rows]
    assert not any(rows[-1])


def test_the_verdicts_follow_from_the_numbers():
    numbers = lab.turing(1, longest=12).measured
    simulate, resources = lab.finding_class("turing").claims
    assert simulate.verdict(numbers).short == "holds"
    assert resources.verdict(numbers).short == "not decided by this run"  # float64 is right up to 12
    machines = {name: {**row, "limits": dict.fromkeys(row["limits"], 9)} for name, row in numbers["machines"].items()}
    assert resources.verdict({**numbers, "machines": machines}).short == "does not hold as printed"
    machines["palindromes"]["wrong"] = 1
    assert simulate.verdict({**numbers, "machines": machines}).short == "does not hold as printed"
