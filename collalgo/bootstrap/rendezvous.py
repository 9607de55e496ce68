"""The rendezvous of the processes of one host.

Rank 0 makes the memory of the world and hands it to the others over a Unix socket in
the abstract namespace: no file, no port, gone with the process. Both sides ask the
kernel who the other is and talk only to processes of the same user. What travels is
a fixed binary format, which is checked and never unpickled.
"""

import hashlib
import logging
import os
import selectors
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from collalgo._kernels.shared_memory import Segment, SharedMemory, may_read
from collalgo.connection import JOIN_TIMEOUT, Connection, label_of
from collalgo.errors import BootstrapError
from collalgo.heap import mapped
from collalgo.machine import Machine, this_machine
from collalgo.transport import shm
from collalgo.transport.waiting import cores

_LOG = logging.getLogger("collalgo")

_MAGIC = b"collalg1"
_HELLO = struct.Struct("=8sII")
_ANSWER = struct.Struct("=8sI")
_CREDENTIALS = struct.Struct("=iII")
_RETRY_SECONDS = 0.01


class HostOrigin:
    """Processes of one host that share the name of a job."""

    def __init__(self, job: str):
        self.job = job

    def meet(
        self,
        name: str,
        rank: int,
        members: Sequence[int],
        timeout: float = JOIN_TIMEOUT,
    ) -> Connection:
        """Meet the others that call with the same name: my end of a new world."""
        job = f"{self.job}/{name}" if name else self.job
        room = enter(job, rank, len(members), timeout)
        transport = shm.attach(room.segment, rank, len(members), room.cores)
        return Connection(
            transport,
            HostOrigin(job),
            room.machine,
            room.watch(transport),
            label=label_of(job, name),
        )


class Room(NamedTuple):
    """The memory that some processes of one host share, and who they are."""

    segment: Segment
    processes: list[int]
    machine: Machine | None

    @property
    def cores(self) -> int | None:
        """How many cores the processes have together, if somebody has counted them."""
        return self.machine.cores if self.machine else None

    def watch(self, transport: SharedMemory) -> list[int]:
        """Let a rank see to the others: the descriptors to be closed at the end."""
        transport.allow_fetching(self.processes)
        return shm.watch(transport, self.processes)


def enter(job: str, rank: int, size: int, timeout: float = JOIN_TIMEOUT) -> Room:
    """Meet the other processes of this host that come to the same job."""
    address = "\0collalgo-" + hashlib.sha256(job.encode()).hexdigest()[:32]
    deadline = time.monotonic() + timeout
    if rank == 0:
        descriptor, processes = _host(address, size, deadline)
    else:
        descriptor, processes = _join(address, rank, size, deadline)
    try:
        segment = mapped(size, descriptor)
    finally:
        os.close(descriptor)
    machine = Machine.of_settings(segment.settings()) if size > 1 else None
    return Room(segment, processes, machine)


def _host(address: str, size: int, deadline: float) -> tuple[int, list[int]]:
    """Rank 0: make the memory, wait for everyone, hand it out."""
    descriptor = shm.create(size)
    processes = [os.getpid()] + [0] * (size - 1)
    if size == 1:
        return descriptor, processes
    guests: dict[int, socket.socket] = {}
    try:
        with _listen(address, size) as listener:
            _welcome(listener, guests, processes, size, deadline)
        machine = replace(this_machine(), cores=cores(processes))
        if not may_read(processes[1:]):
            machine = replace(machine, fetch=machine.exchange)
        shm.set_settings(descriptor, size, machine.settings())
        answer = _ANSWER.pack(_MAGIC, size) + struct.pack(f"={size}I", *processes)
        for rank, guest in guests.items():
            try:
                socket.send_fds(guest, [answer], [descriptor])
            except OSError as error:
                raise BootstrapError(
                    f"rank {rank} has left while the ranks were joining ({error})",
                    rank=0,
                    missing=(rank,),
                ) from None
    except BaseException:
        os.close(descriptor)
        raise
    finally:
        for guest in guests.values():
            guest.close()
    return descriptor, processes


def _listen(address: str, size: int) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise BootstrapError(
            f"rank 0 cannot open the rendezvous of its job ({error}); is another "
            "rank 0 of the same job running?",
            rank=0,
        ) from None
    listener.listen(size)
    listener.setblocking(False)
    return listener


def _welcome(
    listener: socket.socket,
    guests: dict[int, socket.socket],
    processes: list[int],
    size: int,
    deadline: float,
) -> None:
    """Hear every hello as it comes; a slow or strange visitor holds up nobody."""
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        visitors: set[socket.socket] = set()
        try:
            while len(guests) < size - 1:
                left = deadline - time.monotonic()
                if left <= 0:
                    missing = [r for r in range(1, size) if r not in guests]
                    raise BootstrapError(
                        f"rank 0 waited in vain for ranks {missing} of {size} to join; "
                        "see whether they were started, and on this host",
                        rank=0,
                        missing=tuple(missing),
                    )
                for key, _ in selector.select(min(left, 1.0)):
                    if key.fileobj is listener:
                        visitor, _ = listener.accept()
                        visitor.setblocking(False)
                        visitors.add(visitor)
                        selector.register(visitor, selectors.EVENT_READ)
                        continue
                    assert isinstance(key.fileobj, socket.socket)
                    selector.unregister(key.fileobj)
                    visitors.discard(key.fileobj)
                    _hear(key.fileobj, guests, processes, size)
        finally:
            for visitor in visitors:
                visitor.close()


def _hear(
    visitor: socket.socket,
    guests: dict[int, socket.socket],
    processes: list[int],
    size: int,
) -> None:
    """Let a visitor in if it is a process of this user and one of the missing ranks."""
    process, user, _ = _credentials(visitor)
    hello = b""
    with suppress(OSError):
        hello = visitor.recv(_HELLO.size + 1)
    problem = None
    if user != os.geteuid():
        problem = f"user {user} is not user {os.geteuid()}"
    elif len(hello) != _HELLO.size or not hello.startswith(_MAGIC):
        problem = "it does not speak this version of collalgo's protocol"
    else:
        _, rank, its_size = _HELLO.unpack(hello)
        if its_size != size:
            problem = f"it believes in {its_size} ranks but rank 0 in {size}"
        elif not 0 < rank < size or rank in guests:
            problem = f"rank {rank} of {size} is out of range or has joined already"
    if problem is None:
        guests[rank] = visitor
        processes[rank] = process
        return
    _LOG.warning("process %d was refused at the rendezvous: %s", process, problem)
    with visitor, suppress(OSError):
        visitor.send(problem.encode())


def _join(address: str, rank: int, size: int, deadline: float) -> tuple[int, list[int]]:
    """Any other rank: say hello to rank 0 and take the memory."""
    with _connect(address, rank, deadline) as connection:
        _, user, _ = _credentials(connection)
        if user != os.geteuid():
            raise BootstrapError(
                f"rank {rank}: the rendezvous belongs to user {user}, "
                f"not to user {os.geteuid()}; refusing to join",
                rank=rank,
            )
        answer = b""
        descriptors: list[int] = []
        with suppress(OSError):
            connection.send(_HELLO.pack(_MAGIC, rank, size))
            connection.settimeout(max(0.01, deadline - time.monotonic()))
            answer, descriptors, _, _ = socket.recv_fds(
                connection, _ANSWER.size + 4 * size, 1
            )
        expected = _ANSWER.pack(_MAGIC, size)
        if answer.startswith(expected) and len(descriptors) == 1:
            return descriptors[0], list(
                struct.unpack(f"={size}I", answer[len(expected) :])
            )
        for descriptor in descriptors:
            os.close(descriptor)
        why = answer.decode(errors="replace") or "it gave no answer in time"
        raise BootstrapError(f"rank {rank} cannot join rank 0: {why}", rank=rank)


def _connect(address: str, rank: int, deadline: float) -> socket.socket:
    """Connect to rank 0, which may not have come yet."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(_RETRY_SECONDS)  # not to wait for a full queue
    while True:
        try:
            connection.connect(address)
        except (ConnectionRefusedError, BlockingIOError, TimeoutError):
            if time.monotonic() > deadline:
                connection.close()
                raise BootstrapError(
                    f"rank {rank} waited in vain for rank 0 to open the rendezvous; "
                    "see whether it was started, and on this host",
                    rank=rank,
                    missing=(0,),
                ) from None
            time.sleep(_RETRY_SECONDS)
        except BaseException:
            connection.close()
            raise
        else:
            return connection


def _credentials(connection: socket.socket) -> tuple[int, int, int]:
    """Process, user and group of the other side, as the kernel knows them."""
    data = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
    )
    process, user, group = _CREDENTIALS.unpack(data)
    return process, user, group
