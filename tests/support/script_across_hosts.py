"""What ranks on several hosts do in the tests: a script for mpiexec or collalgo run.

``script_across_hosts.py DUTY,... LAYOUT`` with the number of ranks of each host in the
layout.
One machine is taken for several hosts.
"""

import os
import signal
import sys
import threading
import time
from functools import partial
from itertools import accumulate
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

layout = [int(part) for part in sys.argv[2].split("+")]
names = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "RANK")
me = next(int(os.environ[name]) for name in names if name in os.environ)
os.environ.setdefault(
    "COLLALGO_HOST", str(sum(me >= last for last in accumulate(layout)))
)

import numpy as np  # noqa: E402

import collalgo  # noqa: E402
from collalgo import ALGORITHMS  # noqa: E402
from collalgo.errors import (  # noqa: E402
    CollalgoError,
    CollectiveTimeout,
    MismatchError,
    PeerFailed,
)
from collalgo.schedule.collective import COLLECTIVES  # noqa: E402
from tests.support.oracle import check, vectors  # noqa: E402
from tests.support.script_differing import *  # noqa: E402, F403

OPS = ("sum", "max", "avg")
DTYPES = (np.float32, np.int64, np.float16, np.uint8)


def everything(comm, quarters=range(4)):
    """Every collective by every algorithm, short, uneven and long."""
    assert len(set(comm.hosts)) == len(layout)
    found = comm.allreduce(np.ones(9000), np.hypot)  # by an op in Python
    assert np.allclose(found, comm.size**0.5)
    for number, row in enumerate(ALGORITHMS):
        is_mine = number // 4 % 4 in quarters or row.obstacle(6) is not None
        if row.obstacle(comm.size) is not None or not is_mine:
            continue
        root = (comm.size - 1) * COLLECTIVES[row.collective].rooted
        count = (1009, 1, comm.size - 1, 0)[number % 4]
        inputs = vectors(comm.size, count, DTYPES[number % len(DTYPES)], seed=count)
        check(comm, row, inputs, OPS[number // 2 % 2], root=root)
        if number % 2 and comm.size > 4:
            continue  # the other half has its turn elsewhere
        inputs = vectors(comm.size, 50_021, np.float32)
        op = "sum" if row.collective in ("scan", "exscan") else "avg"
        check(comm, row, inputs, op, root=comm.size // 2)


#: The same by some of the algorithms, and those that six ranks cannot run.
half_of_everything = partial(everything, quarters=(0, 2))
other_half_of_everything = partial(everything, quarters=(1, 3))
quarter_of_everything = partial(everything, quarters=(0,))
third_quarter_of_everything = partial(everything, quarters=(2,))


def groups(comm):
    """Groups inside a host, across hosts, and of groups."""
    rails = comm.split(comm.rank - comm.hosts.index(comm.hosts[comm.rank]))
    inside = comm.split(comm.hosts[comm.rank])
    assert set(inside.hosts) == {0}
    for part in (rails, inside, comm.dup().dup(), comm.group(range(comm.size))):
        total = part.allreduce(np.full(30_000, 1.0))
        assert (total == part.size).all()
        part.close()
    backwards = comm.group(range(comm.size)[::-1])
    assert backwards.rank == comm.size - 1 - comm.rank
    found = backwards.broadcast(np.array([comm.rank]), root=0)
    assert found[0] == comm.size - 1


def negotiated(comm):
    """Arrays that each rank adds in an order of its own."""
    arrays = {f"layer{n}": np.full(100 + n, comm.rank) for n in range(50)}
    with comm.bucket(negotiate=True, limit=5000) as bucket:
        for name in sorted(arrays, key=lambda each: hash((each, comm.rank))):
            bucket.allreduce(arrays[name], name)
    assert all((each == sum(range(comm.size))).all() for each in arrays.values())


def messages(comm):
    """Each rank to rank 0, which does not know who is next; and from nobody."""
    for count in (3, 1, 50_000):
        comm.barrier()
        if comm.rank:
            later = comm.isend(np.full(count + 1, comm.rank), 0, tag=1)
            comm.send(np.full(count, comm.rank), 0)
            later.wait()
            continue
        for tag, length in ((0, count), (1, count + 1)):
            sources = set()
            for _ in range(comm.size - 1):
                message = comm.irecv(np.zeros(length, int), None, tag)
                assert (message.wait() == message.source).all()
                sources.add(message.source)
            assert sources == set(range(1, comm.size))
    if comm.rank == 0:
        try:
            comm.recv(np.zeros(1), None, timeout=0.3)
        except (PeerFailed, CollectiveTimeout):
            return
        raise AssertionError("a message has come that nobody sent")


def swarm(comm):
    """Short calls one after the other: nobody runs away from who is slow."""
    for number in range(2000):
        found = comm.broadcast(np.array([number + comm.rank]), root=0)
        assert found[0] == number
        if comm.rank == comm.size - 1 and number % 500 == 0:
            time.sleep(0.05)


def mismatch(comm):
    """Calls that differ are found where they meet, and told to all."""
    comm.barrier()
    try:
        comm.allreduce(np.ones(1000 + (comm.rank == comm.size - 1)))
        comm.barrier()
    except MismatchError as error:
        print(f"told {comm.rank}: {error}.\n", end="", flush=True)


def late(comm):
    """The rank that does not call is named, with its last call."""
    comm.allreduce(np.ones(7))
    if comm.rank == comm.size - 1:
        time.sleep(3)
    try:
        comm.allreduce(np.ones(3), timeout=0.5)
    except CollectiveTimeout as error:
        assert error.missing == (comm.size - 1,), error.missing
        print(f"told {comm.rank}: {error}.\n", end="", flush=True)


def leaver(comm):
    """A rank that closes has done its part of the calls before, but not of the next."""
    comm.allreduce(np.ones(100_000))
    if comm.rank == comm.size - 1:
        comm.close()
        time.sleep(1)
        return
    try:
        comm.allreduce(np.ones(3))
    except PeerFailed as error:
        assert error.missing == (comm.size - 1,)
        print(f"told {comm.rank}: {error}.\n", end="", flush=True)


def failures(comm):
    """Each failure in a group of its own."""
    for duty in (mismatch, late, leaver):
        part = comm.dup()
        duty(part)
        comm.barrier()
        part.close()


def early(comm):
    """A root that has done its part may end; those who come late have lost nothing."""
    comm.barrier()
    if comm.rank:
        time.sleep(1)
    found = comm.broadcast(np.full(100, comm.rank), root=0)
    assert (found == 0).all()


def closed(comm):
    """Another thread closes in the middle of a call, which then fails everywhere."""
    comm.barrier()
    try:
        if comm.rank == comm.size - 1:
            threading.Timer(0.5, comm.close).start()
        elif comm.rank == 0:
            time.sleep(2)
        comm.allreduce(np.ones(100_000))
    except CollalgoError as error:
        is_last = comm.rank == comm.size - 1  # which is told of its own thread
        assert is_last or error.missing == (comm.size - 1,), error
        print(f"told {comm.rank}: {error}.\n", end="", flush=True)


def forked(comm):
    """A child of a rank that is killed lives on; the others are told all the same."""
    comm.barrier()
    if comm.rank == comm.size - 1:
        if os.fork() == 0:
            time.sleep(4)
            os._exit(0)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    try:
        comm.allreduce(np.ones(3))
    except PeerFailed as error:
        assert time.monotonic() - start < 2, "too late"
        print(f"told {comm.rank}: {error}.\n", end="", flush=True)


def killed(comm):
    """A rank is killed in the middle of calls; all others say which."""
    x = np.ones(200_000, np.float32)
    comm.allreduce(x)
    start = time.monotonic()
    try:
        while time.monotonic() < start + 20:
            if comm.rank == comm.size - 1 and time.monotonic() > start + 0.5:
                os.kill(os.getpid(), signal.SIGKILL)
            comm.allreduce(x, "max")
    except PeerFailed as error:
        print(f"told {comm.rank}: {error}.\n", end="", flush=True)


def holding_back(comm):
    """A rank that waits for one of its own host has kept no message to another back.

    Every eighth packet waits for its receive, and is behind others in a small socket.
    """
    pair = comm.group([0, 2]) if comm.rank != 1 else None
    here = comm.group([0, 1]) if comm.rank != 2 else None
    for _ in range(5):
        if comm.rank != 1:
            time.sleep(0.1 * (comm.rank == 2))
            for count in [10_000] * 7 + [100]:
                pair.broadcast(np.ones(count, np.int8), algorithm="linear", timeout=15)
        if comm.rank == 2:
            comm.send(np.ones(1), 1)
        if comm.rank == 1:
            comm.recv(np.ones(1), 2, timeout=15)
        if comm.rank != 2:
            here.barrier(timeout=15)


def forking(comm):
    """The waits of a forked child take nothing of what is sent to its parent."""
    child = os.fork()
    if child == 0:
        collalgo.threads(lambda part: [part.barrier() for _ in range(300)], 8)
        os._exit(0)
    for count in range(300):
        assert comm.allreduce(np.ones(5)).sum() == 5 * comm.size, count
    assert os.waitpid(child, 0)[1] == 0


def killed_joining(comm):
    """A rank is killed while the others wait for it to join them; all say which."""
    comm.barrier()
    if comm.rank == comm.size - 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        comm.group(range(comm.size))
    except collalgo.PeerFailed as error:
        assert error.missing == (comm.size - 1,), error
        print(f"told {comm.rank}: {error}.\n", end="", flush=True)


def shrinking(comm):
    """Who stays makes a group after another has ended, all on one host."""
    if comm.rank == comm.size - 1:  # on another
        return
    part = comm.group(range(comm.size - 1))
    part.barrier()
    if part.rank == part.size - 1:
        return
    time.sleep(1)  # until its end is known
    less = part.group(range(part.size - 1))
    assert less.allreduce(np.ones(1))[0] == less.size


def long_blocks(comm):
    """Inside a host the kernel may copy blocks of an alltoall, between hosts not."""
    count = 1 << 16
    for _ in range(3):
        blocks = np.arange(comm.size * count) + comm.rank * 0.5
        got = comm.alltoall(blocks.reshape(comm.size, count))
        mine = np.arange(comm.rank * count, (comm.rank + 1) * count)
        assert (got == mine + 0.5 * np.arange(comm.size)[:, None]).all()


world = collalgo.init(timeout=60)
for duty in sys.argv[1].split(","):
    globals()[duty](world)
print(f"right {world.rank};", flush=True)
