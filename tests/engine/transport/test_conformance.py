"""Every transport delivers the same, and reports the same failures.

A further transport passes as it is: add it to ``tests/support/transports.py``.
"""

from itertools import product

import pytest

from tests.support.leisure import at_leisure
from tests.support.transports import WITHOUT_DEATHS, WORLDS

every_world = pytest.mark.parametrize("world", WORLDS)
SIZE = 3


@pytest.mark.parametrize(
    ("world", "size"),
    at_leisure(
        product(WORLDS, [2, SIZE]),
        {("threads", 2), ("processes", 2), *product(WORLDS, [SIZE])},
    ),
)
def test_messages_arrive_whole_and_in_order_until_it_is_closed(tmp_path, world, size):
    WORLDS[world]("delivers_and_closes", size, tmp_path)


@every_world
def test_a_call_times_out_without_a_rank(tmp_path, world):
    WORLDS[world]("times_out", SIZE, tmp_path)


@every_world
def test_a_call_fails_once_a_rank_has_left(tmp_path, world):
    WORLDS[world]("reports_a_rank_that_has_left", SIZE, tmp_path)


@pytest.mark.parametrize(
    "world", [name for name in WORLDS if name not in WITHOUT_DEATHS]
)
def test_a_call_fails_once_a_process_has_died(tmp_path, world):
    WORLDS[world]("reports_a_rank_that_has_died", SIZE, tmp_path)
