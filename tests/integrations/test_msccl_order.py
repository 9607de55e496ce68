"""What is proved of a program of MSCCL is right in whatever order it happens."""

import re

import pytest
from hypothesis import given, settings, strategies as st

from collalgo import ScheduleError
from collalgo.algorithms.catalogue import find
from collalgo.integrations.msccl import xml_of
from collalgo.integrations.msccl.msccl import parse
from tests.support.msccl_orders import is_right, outcome
from tests.support.msccl_programs import (
    all_pairs,
    fused_ring,
    out_of_place,
    proof_of,
    read,
)

FILES = {
    "pairs": all_pairs(3),
    "ring": fused_ring(4),
    "apart": out_of_place(3),
    **{
        f"{collective} {name}": xml_of(find(collective, name, size), size)
        for collective, name, size in (
            ("allreduce", "one_shot", 4),
            ("allreduce", "circulant", 5),
            ("allgather", "bruck", 5),
            ("reduce_scatter", "pat", 4),
            ("alltoall", "bruck", 4),
        )
    },
}


ATTRIBUTE = re.compile(r'(\w+(?:buf|off)|cnt|type|depid|deps|send|recv|chan)="[^"]*"')


VALUES = [*"ios01234r", "-1", "7", "rrc", "rrs", "rcs", "rrcs", "re", "cpy", "nop"]


def changed(text, dice):
    """A file with some other attributes."""
    for _ in range(dice.choice((0, 1, 1, 2, 3))):
        found = dice.choice(list(ATTRIBUTE.finditer(text)))
        other = f'{found[1]}="{dice.choice(VALUES)}"'
        text = text[: found.start()] + other + text[found.end() :]
    return text


@settings(max_examples=60)
@given(dice=st.randoms(use_true_random=False))
@pytest.mark.parametrize("name", FILES)
def test_what_is_proved_is_right_in_whatever_order_it_happens(name, dice):
    text = changed(FILES[name], dice)
    try:
        row = read(text)
        proof_of(row, row.function.cells.size)
    except ScheduleError:
        return
    program = parse(text)
    for _ in range(3):
        assert is_right(program, outcome(program, dice))
