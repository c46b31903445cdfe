"""Code that would leave its memory is refused before it runs."""

import copy

import pytest
import torch

import carousel
from carousel.ops import backend
from carousel.ops.program import KINDS, Compiled, _opcodes
from carousel.program.lowering import LINES, SPACES, plan

pytestmark = pytest.mark.skipif(not backend.available(), reason="no kernels")


def parts():
    return parts_of(carousel.cells.LSTM())


def parts_of(cell):
    """What the native module is given for a cell, as lists."""
    p = plan(cell.program(), train=True, named=True)
    tensors = [[KINDS.index(t.kind), t.row] for t in p.tensors]
    forward, backward = (code.encoded(_opcodes()) for code in (p.forward, p.backward))
    return copy.deepcopy([tensors, p.states, p.saved, p.kept, p.sums, list(forward), list(backward), p.gate, p.targets])


def build(given):
    tensors, states, saved, kept, sums, forward, backward, gate, targets = given
    codes = tuple(forward), None if backward is None else tuple(backward)
    return backend.load()[0].Program(tensors, gate, states, saved, kept, sums, targets, *codes)


def lines(code, kind):
    return [line for line in code[4] if line[0] == LINES.index(kind)]


def test_the_plan_itself_is_accepted():
    assert build(parts()).layout32()[4] > 0
    given = parts()
    given[6] = None
    build(given)
    Compiled(plan(carousel.cells.GRU().program(), train=True, named=False), torch.float64)


SLOTS = {
    "a space that there is not": (0, len(SPACES)),
    "a plane that there is not": (1, 1000),
    "a negative plane": (1, -1),
    "a negative offset": (2, -1),
    "an offset past the end": (2, 1000),
    "no width": (3, 0),
    "too much width": (3, 1 << 40),
}


@pytest.mark.parametrize("case", SLOTS)
@pytest.mark.parametrize("code", [5, 6])
def test_slots(case, code):
    field, value = SLOTS[case]
    refused = 0
    for at, slot in enumerate(parts()[code][0]):
        if field > 1 and SPACES[slot[0]] in ("register", "constant"):
            continue  # which have the width of the loop
        given = parts()
        given[code][0][at][field] = value
        with pytest.raises(ValueError, match="program: "):
            build(given)
        refused += 1
    assert refused > 5


@pytest.mark.parametrize("kind", ["product", "instruction", "loop", "gradient", "total"])
@pytest.mark.parametrize("code", [5, 6])
def test_numbers_of_lines(kind, code):
    """Every number of a line, replaced by one that is far too large."""
    assert lines(parts()[code], kind) or code == 5
    for at in range(len(lines(parts()[code], kind))):
        for field in range(1, len(lines(parts()[code], kind)[at])):
            given = parts()
            line = lines(given[code], kind)[at]
            if kind == "product" and field in (7, 8):  # whether it is turned or added
                continue
            line[field] = 1 << 20
            with pytest.raises(ValueError, match="program: "):
                build(given)


def test_order_and_spaces():
    def spoil(change, code=5):
        given = parts()
        change(given[code])
        with pytest.raises(ValueError, match="program: "):
            build(given)

    spoil(lambda code: code[4].insert(0, code[4][1]))  # before the first stage
    spoil(lambda code: code[4].append(lines(code, "product")[0]))  # a product inside a loop
    spoil(lambda code: code[4].append([9]))
    spoil(lambda code: code[4].append([]))
    spoil(lambda code: code[4].append([LINES.index("instruction"), 0, 0]))
    register = [SPACES[slot[0]] for slot in parts()[5][0]].index("register")
    spoil(lambda code: lines(code, "instruction")[0].__setitem__(3, register))  # read before it is written
    spoil(lambda code: code[0].append([SPACES.index("d_new"), 0, 0, 4]))  # a gradient in a forward step
    spoil(lambda code: lines(code, "instruction")[0].__setitem__(1, _opcodes()["sum"]))  # a reduction as an instruction
    written = lines(parts()[5], "product")[0]
    spoil(lambda code: lines(code, "instruction")[0].__setitem__(2, written[1]))  # a result over the old state
    spoil(lambda code: lines(code, "product")[0].__setitem__(7, 0))  # a product of a backward step in a forward step
    given = copy.deepcopy(parts_of(carousel.cells.Peephole()))
    [at] = [k for k, slot in enumerate(given[6][0]) if SPACES[slot[0]] == "sum"][:1]
    given[6][0][at][3] -= 1
    with pytest.raises(ValueError, match="program: "):  # a part of a sum
        build(given)
    given = parts()
    given[1] = []
    with pytest.raises(ValueError, match="no states"):
        build(given)


def test_calls_check_their_addresses():
    native = backend.load()[0]
    program = build(parts())
    with pytest.raises(ValueError, match="program: 1 addresses for"):
        native.program_forward32(program, (1, 1, 1, 0), (0, 0, 0, 0), [0], [], [], [], (0,) * 5)
    given = parts()
    given[6] = None
    with pytest.raises(ValueError, match="no derivative"):
        native.program_backward32(
            build(given), (1, 1, 1, 0), (0,) * 4, [], [], [], (0,) * 2, [], [], [], [], (0,) * 5, (0,) * 3
        )
