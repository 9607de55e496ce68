"""Groups whose ranks die, or whose parent has gone."""

import contextlib
import os
import re
import signal
import time
from functools import partial

import numpy as np
import pytest

import collalgo
from collalgo import Communicator, spawn
from collalgo.comm.reasons import reason_of


def left_in_split(comm):
    """Rank 2 dies while the others split; what they had before goes on."""
    rest = comm.split(0 if comm.rank != 2 else None)
    comm.barrier()
    if comm.rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(collalgo.PeerFailed, match="rank 2 is gone") as told:
        for _ in range(100):
            comm.split(comm.rank).close()
    assert told.value.missing == (2,)
    for _ in range(3):
        rest = rest.dup()
        assert rest.allreduce(np.ones(1))[0] == comm.size - 1


def test_a_rank_that_dies_in_a_split_is_named_and_older_groups_go_on():
    with pytest.raises(collalgo.CollalgoError, match="rank 2"):
        spawn(left_in_split, 4, timeout=60)


def late(comm):
    """Rank 0 gives up, and tries again under the same name."""
    connect = comm._runner.context.rendezvous.connect
    if comm.rank == 0:
        for _ in range(3):
            with pytest.raises(
                collalgo.BootstrapError, match="did not join in time"
            ) as told:
                connect("late", 0, (0, 1), 0.05)
            assert told.value.missing == (1,)
    comm.barrier()
    if comm.rank < 2:
        part = Communicator(connect("late", comm.rank, (0, 1), 60))
        assert part.allreduce(np.ones(1))[0] == 2
    assert comm.dup().allreduce(np.ones(1))[0] == 3


def test_a_group_that_was_given_up_can_be_tried_again():
    collalgo.threads(late, 3, timeout=60)


def peer_died(comm, path):
    """Rank 2 dies before the others make a group with it."""
    if comm.rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(collalgo.PeerFailed, match="group #1: rank 2 is gone") as told:
        comm.group([1, 2, 0])
    assert told.value.missing == (2,)
    (path / str(comm.rank)).write_text(str(time.monotonic() - began))


@pytest.mark.deadline
def test_a_group_with_a_dead_rank_is_refused_at_once(tmp_path):
    with pytest.raises(collalgo.CollalgoError, match="rank 2"):
        spawn(partial(peer_died, path=tmp_path), 3, timeout=60)
    assert all(float((tmp_path / each).read_text()) < 10 for each in "01")


def who_is_gone(comm, call, end, before=None):
    """The error of the others in a call that rank 2 does not make."""
    comm.barrier()
    part = comm if before is None else before(comm)
    if comm.rank == 2:
        return end(comm)
    try:
        call(part)
    except collalgo.PeerFailed as error:
        return str(error), error.missing


def fail(_comm):
    raise ValueError("planted")


def ends_of(call, end, before=None):
    """What the ranks that do not end are told, without those that rank 2 ends."""
    told = []

    def on_each_rank(comm):
        found = who_is_gone(comm, call, end, before)
        told.append(found)

    with contextlib.suppress(ValueError, TypeError):
        collalgo.threads(on_each_rank, 5, timeout=60)
    return {found for found in told if found is not None}


def test_all_ranks_that_wait_for_a_group_name_the_rank_that_left():
    told = ends_of(lambda comm: comm.group(range(5)), Communicator.close)
    assert told == {("group #2: rank 2 is gone: its communicator was closed", (2,))}
    ((text, missing),) = ends_of(lambda comm: comm.group(range(5)), fail)
    assert missing == (2,)
    assert re.fullmatch(
        r"group #2: rank 2 is gone: ValueError: planted \(at \S+:\d+ in fail\)", text
    )


def test_a_rank_that_fails_gives_its_reason_in_its_groups_too():
    def groups(comm):
        return comm.group([2, 0, 1, 3, 4]).dup()

    ((text, missing),) = ends_of(lambda comm: comm.barrier(), fail, groups)
    assert missing == (0,)  # which is rank 2 of the world
    assert "rank 0 is gone: ValueError: planted (at" in text


def refused(comm):
    comm.split("red")


def test_the_reason_of_a_rank_is_its_users_line():
    ((text, _),) = ends_of(lambda comm: comm.barrier(), refused)
    assert re.search(r"TypeError: split: .* \(at test_groups\S+:\d+ in refused\)", text)


def test_a_reason_without_a_message_has_no_gap():
    assert reason_of(KeyboardInterrupt()) == "KeyboardInterrupt"


def orphans(comm):
    """A group goes on, and makes groups, when what it came from is closed."""
    part = comm.group(range(comm.size))
    comm.close()
    again = part.dup()
    assert again.allreduce(np.ones(1))[0] == part.size
    if part.rank == 0:
        part.send(np.ones(1), 1)
    elif part.rank == 1:
        part.recv(np.zeros(1), 0)


def test_a_group_outlives_what_it_came_from():
    spawn(orphans, 3, timeout=60)
