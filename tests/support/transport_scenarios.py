"""What every transport must do: scenarios, run by each rank of a world.

A scenario is a function of a :class:`Rank`. It makes calls on a transport through the
engine and checks their results; nothing in it depends on the kind of the transport.
"""

import os
import re
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np

from collalgo._kernels.engine.program import RUN_CLOSED, RUN_DONE, RUN_FAILED
from collalgo._kernels.engine.transport.transport import LANES
from collalgo.engine.transport.interface import RankTransport
from collalgo.schedule import Chunk, Kind, Transfer
from tests.support.transport_rank import BEFORE, SHORT, SIZES, expect, pattern, transfer

#: Bytes that no engine keeps for a rank that does not receive them.
LONG = 48 << 20

#: Bytes that are reduced in four messages, and memory that an engine may take itself.
REDUCED, KEPT, OF_ENGINE = 4 << 20, 16 << 20, 8 << 20


def it_has_the_interface(rank):
    assert isinstance(rank.transport, RankTransport)
    assert (rank.transport.closed, rank.transport.forked) == (False, False)
    assert rank.transport.failure() is None


def messages_of_a_lane_arrive_in_order(rank):
    """More messages than any queue holds, of changing lengths."""
    parts, step_of = 3000, (1, 7, 2, 40)
    steps, start = [], 0
    while start < parts:
        stop = min(start + step_of[len(steps) % len(step_of)], parts)
        chunks = (Chunk(start, stop, parts),)
        steps.append([Transfer(Kind.SEND if rank.rank == 0 else Kind.RECV,
                               1 - rank.rank, chunks)])  # fmt: skip
        start = stop
    for nbytes in (parts, 100 * parts):
        wanted = pattern(5, nbytes)
        buffer = wanted.copy() if rank.rank == 0 else np.zeros(nbytes, np.uint8)
        assert rank.call(steps if rank.rank < 2 else [], buffer) == RUN_DONE
        if rank.rank < 2:
            expect(buffer, wanted)


def lanes_are_independent(rank):
    """Messages are received in the opposite order of lanes, step by step."""
    for nbytes in (LANES, 60 * LANES, 1000 * LANES):
        wanted = pattern(3, nbytes)
        buffer = wanted.copy() if rank.rank == 0 else np.zeros(nbytes, np.uint8)
        kind = Kind.SEND if rank.rank == 0 else Kind.RECV
        lanes = range(LANES) if rank.rank == 0 else reversed(range(LANES))
        steps = [[transfer(kind, 1 - rank.rank, lane, LANES, lane)] for lane in lanes]
        assert rank.call(steps if rank.rank < 2 else [], buffer) == RUN_DONE
        if rank.rank < 2:
            expect(buffer, wanted)


def messages_may_have_any_size(rank):
    for nbytes in SIZES:
        rank.succeed(nbytes)


def many_messages_are_in_flight(rank):
    """One on each lane between any two ranks, in both directions at once."""
    for nbytes in (9, 300, 70_001):
        for _ in range(5):
            rank.succeed(nbytes, lanes=LANES)


def receives_reduce(rank):
    for nbytes in (1, 1000, 300_001, 3 << 20):
        buffer = pattern(rank.rank, nbytes)
        step = []
        for peer in rank.peers():
            step.append(transfer(Kind.SEND, peer, 0, 1))
            step.append(transfer(Kind.RECV_REDUCE, peer, 0, 1))
        assert rank.call([step], buffer) == RUN_DONE
        wanted = sum(
            pattern(each, nbytes).astype(np.int64) for each in range(rank.size)
        )
        expect(buffer, (wanted % 256).astype(np.uint8))


def long_messages_are_reduced(rank):
    """From staging of each length, and from memory that is mapped for one part."""
    nbytes = 33 << 20
    buffer = pattern(rank.rank, nbytes)
    peers = (rank.rank + 1) % rank.size, (rank.rank - 1) % rank.size
    kinds = Kind.SEND, Kind.RECV_REDUCE
    step = [transfer(kind, peer, 0, 1) for kind, peer in zip(kinds, peers, strict=True)]
    assert rank.call([step], buffer) == RUN_DONE
    expect(buffer, pattern(rank.rank, nbytes) + pattern(peers[1], nbytes))


def idle_channels_keep_little_memory(rank):
    """After four long messages on each, which are reduced from staging."""
    buffer = np.ones(LANES * REDUCED, np.uint8)
    step = []
    for peer, lane in product(rank.peers(), range(LANES)):
        step.append(transfer(Kind.SEND, peer, lane, LANES, lane))
        step.append(transfer(Kind.RECV_REDUCE, peer, lane, LANES, lane))
    before = anonymous_bytes()
    for _ in range(3):
        assert rank.call([step], buffer) == RUN_DONE
    grown = anonymous_bytes() - before
    assert grown < KEPT + OF_ENGINE, f"{grown >> 20} MiB more"


def anonymous_bytes():
    """The memory of this process that belongs to no file."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) << 10


def one_chunk_goes_to_many_peers(rank):
    for nbytes in (5, 2000, 1 << 20, 6 << 20):
        wanted = pattern(9, nbytes)
        buffer = wanted.copy() if rank.rank == 0 else np.zeros(nbytes, np.uint8)
        if rank.rank == 0:
            step = [transfer(Kind.SEND, peer, 0, 1) for peer in rank.peers()]
        else:
            step = [transfer(Kind.RECV, 0, 0, 1)]
        assert rank.call([step], buffer) == RUN_DONE
        expect(buffer, wanted)


def receives_replace_what_is_sent(rank):
    """In several parts, of which none may arrive before its place has been read."""
    for nbytes in (1000, 1 << 20, (5 << 20) + 1):
        buffer = pattern(rank.rank, nbytes)
        before, after = ((rank.rank + step) % rank.size for step in (-1, 1))
        step = [transfer(Kind.SEND, after, 0, 1), transfer(Kind.RECV, before, 0, 1)]
        for _ in range(3):
            assert rank.call([step], buffer) == RUN_DONE
        expect(buffer, pattern((rank.rank - 3) % rank.size, nbytes))


def tokens_carry_no_bytes(rank):
    step = [Transfer(kind, peer, ()) for peer in rank.peers() for kind in
            (Kind.SEND, Kind.RECV)]  # fmt: skip
    for _ in range(100):
        assert rank.call([step], np.zeros(0, np.uint8)) == RUN_DONE


def a_rank_may_be_late(rank):
    """The others have sent all that they can by then."""
    for nbytes in (40, 1 << 20):
        if rank.rank == rank.size - 1:
            time.sleep(0.2)
        rank.succeed(nbytes)


DELIVERY = (
    it_has_the_interface,
    messages_of_a_lane_arrive_in_order,
    lanes_are_independent,
    messages_may_have_any_size,
    many_messages_are_in_flight,
    receives_reduce,
    long_messages_are_reduced,
    idle_channels_keep_little_memory,
    one_chunk_goes_to_many_peers,
    receives_replace_what_is_sent,
    tokens_carry_no_bytes,
    a_rank_may_be_late,
)


def delivers(rank):
    """All scenarios of delivery, one after the other in the same world."""
    before = rank.transport.completed
    for scenario in DELIVERY:
        try:
            scenario(rank)
        except Exception as error:
            raise AssertionError(f"{scenario.__name__} on rank {rank.rank}") from error
    assert rank.transport.completed > before


def delivers_and_closes(rank):
    """All scenarios that end well, in one world."""
    delivers(rank)
    closes(rank)


def times_out(rank):
    """The last rank does not make the last call, in which it would receive much.

    An engine between hosts still reads the array then, which therefore stays.
    """
    last = rank.size - 1
    rank.connect()
    if rank.rank != last:
        buffer = np.zeros(LONG, np.uint8)
        holders = sys.getrefcount(buffer)
        step = [transfer(Kind.SEND, last, 0, 1)]
        assert rank.call([step], buffer, SHORT) == RUN_FAILED
        assert (sys.getrefcount(buffer) > holders) == bool(rank.hosts)
        failure = rank.transport.failure()
        assert failure["kind"] == "timeout"
        assert failure["sequence"] == BEFORE + 1
        assert failure["waited"] == SHORT
        assert rank.exchange(20) == RUN_FAILED  # and every later call


def closes(rank):
    """A closed transport makes no calls; closing again does nothing."""
    rank.connect()
    finish(rank)
    rank.transport.close("the scenario is over")
    rank.transport.close()
    assert rank.transport.closed
    assert rank.exchange(10) == RUN_CLOSED


def reports_a_rank_that_has_left(rank):
    """A rank closes after some calls: the next call of the others fails."""
    last = rank.size - 1
    rank.connect()
    if rank.rank == last:
        for peer in rank.peers():  # a reader still needs what this rank has sent
            rank.wait_for("received", peer)
        rank.transport.close("it had enough")
        rank.signal("closed")
        return
    rank.signal("received")
    rank.wait_for("closed", last)
    rank.left(last, BEFORE)
    expect_failure_of(rank, last)


def reports_a_rank_that_has_died(rank):
    """A process ends without a word: the next call of the others fails."""
    last = rank.size - 1
    rank.connect()
    if rank.rank == last:
        for peer in rank.peers():
            rank.wait_for("received", peer)
        os._exit(0)
    rank.signal("received")
    expect_failure_of(rank, last)


def expect_failure_of(rank, culprit):
    assert rank.exchange(10) == RUN_FAILED
    failure = rank.transport.failure()
    assert (failure["kind"], failure["culprit"]) == ("peer", culprit)
    assert failure["sequence"] == BEFORE + 1


def finish(rank, but=()):
    """Wait until all ranks, but for some, have come to their end."""
    rank.signal("finished")
    for peer in rank.peers():
        if peer not in but:
            rank.wait_for("finished", peer)


SCENARIOS = {
    scenario.__name__: scenario
    for scenario in (
        delivers_and_closes,
        times_out,
        reports_a_rank_that_has_left,
        reports_a_rank_that_has_died,
    )
}
