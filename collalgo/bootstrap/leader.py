"""The first process of a host at a rendezvous: it hands out the memory of all."""

import logging
import os
import selectors
import socket
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

from collalgo._kernels.processes import may_read
from collalgo.bootstrap.party import (
    HELLO,
    LOOK_SECONDS,
    MAGIC,
    Party,
    answer,
    credentials,
)
from collalgo.errors import BootstrapError
from collalgo.machine import this_machine
from collalgo.transport import shm
from collalgo.transport.waiting import cores

_LOG = logging.getLogger("collalgo")


def hand_out(address: str, party: Party) -> tuple[int, list[int]]:
    """The first: make the memory, wait for everyone, hand it out."""
    size = party.size
    descriptor = shm.create(size)
    processes = [os.getpid()] + [0] * (size - 1)
    if size == 1:
        return descriptor, processes
    guests: dict[int, socket.socket] = {}
    try:
        with _listen(address, party) as listener:
            _welcome(listener, guests, processes, party)
        machine = replace(this_machine(), cores=cores(processes))
        if not may_read(processes[1:]):
            machine = replace(machine, fetch=machine.exchange)
        shm.set_settings(descriptor, size, machine.settings())
        said = answer(processes)
        for place, guest in guests.items():
            try:
                socket.send_fds(guest, [said], [descriptor])
            except OSError:
                raise party.left(place) from None
    except BaseException as error:
        os.close(descriptor)
        for guest in guests.values():
            with suppress(OSError):
                guest.send(str(error).encode())
        raise
    finally:
        for guest in guests.values():
            guest.close()
    return descriptor, processes


def _listen(address: str, party: Party) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise BootstrapError(
            f"rank {party.me} cannot open the rendezvous of its job ({error}); is "
            f"another rank {party.me} of the same job running?",
            rank=party.me,
        ) from None
    listener.listen(party.size)
    listener.setblocking(False)
    return listener


def _welcome(
    listener: socket.socket,
    guests: dict[int, socket.socket],
    processes: list[int],
    party: Party,
) -> None:
    """Hear every hello as it comes; a slow or strange visitor holds up nobody."""
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        visitors: set[socket.socket] = set()
        try:
            while len(guests) < party.size - 1:
                left = party.deadline - time.monotonic()
                if left <= 0:
                    raise _in_vain(guests, party)
                party.watch.check()
                for key, _ in selector.select(min(left, LOOK_SECONDS)):
                    if key.fileobj is listener:
                        visitor, _ = listener.accept()
                        visitor.setblocking(False)
                        visitors.add(visitor)
                        selector.register(visitor, selectors.EVENT_READ)
                        continue
                    assert isinstance(key.fileobj, socket.socket)
                    if key.data is not None:  # a guest, who has nothing more to say
                        raise party.left(key.data)
                    selector.unregister(key.fileobj)
                    visitors.discard(key.fileobj)
                    place = _hear(key.fileobj, guests, processes, party.size)
                    if place is not None:
                        selector.register(key.fileobj, selectors.EVENT_READ, place)
        finally:
            for visitor in visitors:
                visitor.close()


def _in_vain(guests: Collection[int], party: Party) -> BootstrapError:
    missing = [party.members[p] for p in range(1, party.size) if p not in guests]
    return BootstrapError(
        f"rank {party.me} waited in vain for ranks {missing} of {party.size} to join; "
        "see whether they were started, and on this host",
        rank=party.me,
        missing=tuple(missing),
    )


def _hear(
    visitor: socket.socket,
    guests: dict[int, socket.socket],
    processes: list[int],
    size: int,
) -> int | None:
    """Let a visitor in if it is a process of this user and one of the missing ranks."""
    process, user, _ = credentials(visitor)
    hello = b""
    with suppress(OSError):
        hello = visitor.recv(HELLO.size + 1)
    problem = None
    if user != os.geteuid():
        problem = f"user {user} is not user {os.geteuid()}"
    elif len(hello) != HELLO.size or not hello.startswith(MAGIC):
        problem = "it does not speak this version of collalgo's protocol"
    else:
        rank: int
        _, rank, its_size = HELLO.unpack(hello)
        if its_size != size:
            problem = f"it believes in {its_size} ranks but rank 0 in {size}"
        elif not 0 < rank < size or rank in guests:
            problem = f"rank {rank} of {size} is out of range or has joined already"
    if problem is None:
        guests[rank] = visitor
        processes[rank] = process
        return rank
    _LOG.warning("process %d was refused at the rendezvous: %s", process, problem)
    with visitor, suppress(OSError):
        visitor.send(problem.encode())
    return None
