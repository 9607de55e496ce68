"""What ranks do in the tests that make different calls; see ``across_hosts.py``."""

import time

import numpy as np

from collalgo.bootstrap.failure_agreement import FailureAgreement
from collalgo.errors import MismatchError


def _differing(odd):
    """Calls of which one rank makes another, by name: what each rank calls.

    Most of them wait for messages that nobody sends.
    """
    x, much, few = np.ones(2000), np.ones(300_000), np.ones(3, np.int32)
    return {
        "root": lambda c: c.broadcast(x, root=odd(c)),
        "root of a sum": lambda c: c.reduce(x, root=odd(c), algorithm="linear"),
        "kind": lambda c: c.scan(x) if odd(c) else c.broadcast(x),
        "rooted kind": lambda c: c.reduce(x) if odd(c) else c.broadcast(x),
        "algorithm": lambda c: c.allreduce(
            x, algorithm=("ring", "recursive_doubling")[odd(c)]
        ),
        "op": lambda c: c.reduce(few, op=("sum", "max")[odd(c)], root=odd(c)),
        "dtype": lambda c: c.broadcast(few.astype("if"[odd(c)]), root=odd(c)),
        "count": lambda c: c.broadcast(x[odd(c) :], root=odd(c)),
        "background": lambda c: c.broadcast_async(x, root=odd(c)).wait(),
        "much": lambda c: c.broadcast(much, root=odd(c), algorithm="binomial"),
    }


def differ(comm):
    """Calls that differ are told to all ranks, even if no message meets another."""
    for odd in {comm.size // 2, comm.size - 1}:
        for name, call in _differing(lambda c, odd=odd: int(c.rank == odd)).items():
            _fails(comm, comm.dup(), f"{name}, rank {odd}", call)


def differ_briefly(comm):
    """The same of a few, and of a call in which all wait for one another."""
    _fails(
        comm, comm.dup(), "nobody sends",
        lambda c: c.broadcast(np.ones(3), (c.rank + 1) % c.size, algorithm="linear"),
    )  # fmt: skip
    odd = comm.size - 1
    calls = _differing(lambda c: int(c.rank == odd))
    for name in ("root", "kind", "algorithm", "background"):
        _fails(comm, comm.dup(), f"{name}, rank {odd}", calls[name])
    if comm.size > 2:
        _fails(comm, comm.dup(), f"unnoticed, rank {odd}", _return_unnoticed)


def _return_unnoticed(comm):
    """The last rank returns from a wrong call, and no message of it meets another.

    The next call that waits for all ranks uses none of the channels of the wrong one.
    """
    count = 0 if comm.rank == comm.size - 1 else 2000
    comm.broadcast(np.ones(count), root=1, algorithm="linear")
    comm.barrier(algorithm="linear")
    raise AssertionError("a call that waits for all has returned on some rank")


def differ_in_groups(comm):
    """The same in a group of one rank of the first host and one of the last."""
    odd = comm.size - 1
    ends = comm.group([0, odd]) if comm.rank in (0, odd) else None
    _fails(comm, ends, "group", lambda c: c.broadcast(np.ones(3), root=1 - c.rank))
    halves = comm.split(comm.rank % 2)
    _fails(
        comm, halves if halves.size > 1 else None, f"half {comm.rank % 2}",
        lambda c: c.broadcast(np.ones(3), root=(c.rank + 1) % c.size),
    )  # fmt: skip


def differ_unasked(comm):
    """What nobody has asked for is found when the time is up."""
    FailureAgreement.ask = lambda _: None
    call = _differing(lambda c: int(c.rank == c.size - 1))["root"]
    for barrier in ("dissemination", "recursive_doubling"):
        part = comm.dup()
        part.timeout = 1.0
        _fails(
            comm, part, f"root before {barrier}, rank {comm.size - 1}", call, barrier
        )


def _fails(comm, part, name, call, barrier=None):
    """Make a right call, a wrong one that some rank waits in, and one more."""
    try:
        if part is not None:
            part.allreduce(np.ones(3))
            call(part)
            part.barrier(algorithm=barrier)
            raise AssertionError(f"{name}: nothing was found")
    except MismatchError as error:
        print(f"told {comm.rank} {name}: {error}.\n", end="", flush=True)
    comm.barrier()
    if part is not None:
        part.close()


def differing_messages(comm):
    """What is sent differs from what is received, or there is nothing to be sent."""
    last = comm.size - 1
    for tag, (sent, received) in enumerate([
        (np.ones(3), np.ones(5)),
        (np.ones(3), np.ones(3, int)),
        (np.ones(0), np.ones(5)),
        (np.ones(300_000), np.ones(0)),
    ]):  # fmt: skip
        try:
            while comm.rank in (0, last):  # who has only sent is told by its next call
                if comm.rank:
                    comm.recv(received, 0, tag)
                else:
                    comm.send(sent, last, tag)
                time.sleep(0.2)
        except MismatchError as error:
            print(f"told {comm.rank} {tag}: {error}.\n", end="", flush=True)


def dawdle(comm):
    """Who is late, in whatever call, is in no wrong one; nor is who passes a block."""
    counts = range(1, comm.size + 1)
    for late in {0, comm.size - 1}:
        if comm.rank == late:
            time.sleep(1.6)
        comm.broadcast(np.ones(3), root=0)
        comm.broadcast(np.ones(3), root=comm.size - 1)
        comm.allgatherv(np.ones(counts[comm.rank]), list(counts))
        work = comm.scan_async(np.ones(2))
        time.sleep(1.2 * (comm.rank == late))
        assert (work.wait() == comm.rank + 1).all()
        for number in range(40):  # more than are remembered
            comm.broadcast(np.array([number]), root=late)
            time.sleep(0.02 * (comm.rank == comm.size - 1))


def wander(comm):
    """Calls that all ranks make alike never fail, however late who comes to them."""
    calls, pauses = np.random.default_rng(0), np.random.default_rng(comm.rank)
    for part in (comm, comm.dup(), comm.split(comm.rank % 2)):
        for _ in range(60):
            kind, root, count = calls.integers([4, part.size, 2000])
            if pauses.random() < 0.02:
                time.sleep(1.5)
            if kind == 0:
                found = part.broadcast(np.full(count, part.rank), root=root)
                assert (found == root).all()
            elif kind == 1:
                part.reduce(np.ones(count), root=root)
            elif kind == 2:
                assert (part.allreduce_async(np.ones(count)).wait() == part.size).all()
            else:
                part.allgather(np.ones(count))


def close_differing(comm):
    """Calls that waited for nobody are compared as the ranks close, or wait later."""
    _closes_in_turn(
        comm, comm.dup(), "roots", lambda c: c.broadcast(np.ones(2), c.rank)
    )
    by_host = comm.hosts[comm.rank]
    first = comm.hosts.index(by_host)
    _closes_in_turn(comm, comm.dup(), "hosts", lambda c: c.broadcast(np.ones(2), first))
    _closes_in_turn(
        comm, comm.dup(), "number", lambda c: c.rank or c.broadcast(np.ones(3))
    )
    _closes_in_turn(comm, comm.dup(), "", lambda c: c.broadcast(np.ones(3)))
    _closes_first(comm, comm.dup())


def _closes_first(comm, part):
    """Rank 0 has closed a group before the others call."""
    if comm.rank == 0:
        part.broadcast(np.ones(3))
        part.close()
    comm.barrier()
    if comm.rank:
        try:
            part.broadcast(np.ones(3), 1)  # whose ranks may all have made it alike
            part.close()
            raise AssertionError("close has not compared")
        except MismatchError as error:
            assert "root" in str(error)
    comm.barrier()


def _closes_in_turn(comm, part, name, call):
    """Close one rank after the other; some rank is told if calls differ, at the latest
    the last one as it closes.
    """
    told = ""
    try:
        call(part)
    except MismatchError as error:
        told = str(error)
    for rank in range(comm.size):
        comm.barrier()
        if rank == comm.rank:
            try:
                part.close()
            except MismatchError as error:
                told = str(error)
    anyone = comm.allreduce(np.array([bool(told)]), "max")[0]
    assert bool(name) == bool(anyone), (name, told)


def groups_differ(comm):
    """Calls that make groups differ from those of other ranks, on any host."""
    for name, call in _group_calls(comm.size).items():
        _differs(comm, comm.dup(), name, call)


def _group_calls(size):
    last, everyone = size - 1, list(range(size))
    return {
        "order": lambda c: c.group(everyone[:: -1 if c.rank == last else 1]),
        "dup": lambda c: c.dup() if c.rank == last else c.split(0),
        "reduce": lambda c: (
            c.allreduce(np.ones(2)) if c.rank == last else c.group(everyone)
        ),
        "late": lambda c: (
            (time.sleep(1.5), c.barrier()) if c.rank == 0 else c.group(everyone)
        ),
        "local": lambda c: c.cross if c.rank == last else c.local,
    }


def _differs(comm, part, name, call):
    part.barrier()
    if name == "local" and set(part.hosts) != {0, 1}:
        print(f"told {comm.rank} {name}: not here.", flush=True)
        return
    begun = time.monotonic()
    try:
        call(part)
        if name == "local":
            part.barrier()
        raise AssertionError(f"{name}: nothing was found")
    except MismatchError as error:
        print(f"told {comm.rank} {name}: {error}.", flush=True)
    assert time.monotonic() - begun < 8, f"{name}: too late"
    comm.barrier()
    part.close()
