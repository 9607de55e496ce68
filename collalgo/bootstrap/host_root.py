"""The first process of a host at a rendezvous: it hands out the memory of all."""

import logging
import os
import selectors
import socket
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

from collalgo._kernels.engine.transport.processes import may_read
from collalgo.bootstrap.join_request import (
    HELLO,
    LOOK_SECONDS,
    MAGIC,
    JoinRequest,
    answer,
    credentials,
)
from collalgo.cost.host_profile import host_profile
from collalgo.engine.transport import shm
from collalgo.engine.transport.waiting import cores
from collalgo.errors import BootstrapError

_LOG = logging.getLogger("collalgo")


def serve(address: str, join_request: JoinRequest) -> tuple[int, list[int]]:
    """The first: make the memory, wait for everyone, hand it out."""
    size = join_request.size
    descriptor = shm.create(size)
    processes = [os.getpid()] + [0] * (size - 1)
    if size == 1:
        return descriptor, processes
    guests: dict[int, socket.socket] = {}
    try:
        with _listen(address, join_request) as listener:
            _welcome(listener, guests, processes, join_request)
        machine = replace(host_profile(), cores=cores(processes))
        if not may_read(processes[1:]):
            machine = replace(machine, fetch=machine.exchange)
        shm.set_settings(descriptor, size, machine.settings())
        said = answer(processes)
        for place, guest in guests.items():
            try:
                socket.send_fds(guest, [said], [descriptor])
            except OSError:
                raise join_request.left(place) from None
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


def _listen(address: str, join_request: JoinRequest) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise BootstrapError(
            f"rank {join_request.me} cannot open the rendezvous of its job ({error}); "
            f"is another rank {join_request.me} of the same job running?",
            rank=join_request.me,
        ) from None
    listener.listen(join_request.size)
    listener.setblocking(False)
    return listener


def _welcome(
    listener: socket.socket,
    guests: dict[int, socket.socket],
    processes: list[int],
    join_request: JoinRequest,
) -> None:
    """Hear every hello as it comes; a slow or strange visitor holds up nobody."""
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        visitors: set[socket.socket] = set()
        try:
            while len(guests) < join_request.size - 1:
                left = join_request.deadline - time.monotonic()
                if left <= 0:
                    raise _in_vain(guests, join_request)
                join_request.watch.check()
                for key, _ in selector.select(min(left, LOOK_SECONDS)):
                    if key.fileobj is listener:
                        visitor, _ = listener.accept()
                        visitor.setblocking(False)
                        visitors.add(visitor)
                        selector.register(visitor, selectors.EVENT_READ)
                        continue
                    assert isinstance(key.fileobj, socket.socket)
                    if key.data is not None:  # a guest, who has nothing more to say
                        raise join_request.left(key.data)
                    selector.unregister(key.fileobj)
                    visitors.discard(key.fileobj)
                    place = _hear(key.fileobj, guests, processes, join_request.size)
                    if place is not None:
                        selector.register(key.fileobj, selectors.EVENT_READ, place)
        finally:
            for visitor in visitors:
                visitor.close()


def _in_vain(guests: Collection[int], join_request: JoinRequest) -> BootstrapError:
    missing = [
        join_request.members[p] for p in range(1, join_request.size) if p not in guests
    ]
    return BootstrapError(
        f"rank {join_request.me} waited in vain for ranks {missing} of "
        f"{join_request.size} to join; see whether they were started, and on this host",
        rank=join_request.me,
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
