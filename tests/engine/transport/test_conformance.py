"""Every transport delivers the same, and reports the same failures.

A further transport passes as it is: add it to ``tests/support/transports.py``.
"""

import pytest

from tests.support.transports import WITHOUT_DEATHS, WORLDS

pytestmark = pytest.mark.parallel

every_world = pytest.mark.parametrize("world", WORLDS)
SIZE = 3


@every_world
@pytest.mark.parametrize("size", [2, SIZE])
def test_messages_arrive_whole_and_in_order(tmp_path, world, size):
    WORLDS[world]("delivers", size, tmp_path)


@every_world
def test_a_call_times_out_without_a_rank(tmp_path, world):
    WORLDS[world]("times_out", SIZE, tmp_path)


@every_world
def test_a_closed_transport_makes_no_calls(tmp_path, world):
    WORLDS[world]("closes", SIZE, tmp_path)


@every_world
def test_a_call_fails_once_a_rank_has_left(tmp_path, world):
    WORLDS[world]("reports_a_rank_that_has_left", SIZE, tmp_path)


@pytest.mark.parametrize(
    "world", [name for name in WORLDS if name not in WITHOUT_DEATHS]
)
def test_a_call_fails_once_a_process_has_died(tmp_path, world):
    WORLDS[world]("reports_a_rank_that_has_died", SIZE, tmp_path)
