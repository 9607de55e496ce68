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
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, Protocol

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
_PROBLEM_BYTES = 500

#: Seconds between two looks whether a rank is gone that has not come.
_LOOK_SECONDS = 0.1


class Roll(Protocol):
    """What is known of some processes that wait for each other to join."""

    def of(self, members: Sequence[int]) -> "Roll":
        """The same of some of them, by their numbers."""

    def check(self) -> None:
        """Raise BootstrapError if one of them is gone."""


class NoRoll:
    """Nobody is told when a process ends."""

    def of(self, _members: Sequence[int]) -> "NoRoll":
        return self

    def check(self) -> None:
        pass


class HostOrigin:
    """Processes of one host that share the name of a job.

    Parameters
    ----------
    job
        Its name.
    roll
        What is known of them.
    """

    def __init__(self, job: str, roll: Roll | None = None):
        self.job = job
        self.roll = roll or NoRoll()

    def meet(
        self,
        name: str,
        rank: int,
        members: Sequence[int],
        timeout: float = JOIN_TIMEOUT,
    ) -> Connection:
        """Meet the others that call with the same name: my end of a new world."""
        job = f"{self.job}/{name}" if name else self.job
        roll = self.roll.of(members)
        room = enter(job, rank, members, timeout, roll)
        transport = shm.attach(room.segment, rank, len(members), room.cores)
        return Connection(
            transport,
            HostOrigin(job, roll),
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


class Party(NamedTuple):
    """Processes of one host that are to meet, as one of them sees it.

    Attributes
    ----------
    place
        Which of them this is; the first makes the memory of all.
    members
        The ranks that they have, as errors tell.
    deadline
        Until when they wait for each other.
    roll
        What is known of them.
    """

    place: int
    members: Sequence[int]
    deadline: float
    roll: Roll

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def me(self) -> int:
        return self.members[self.place]

    @property
    def leader(self) -> int:
        return self.members[0]

    def left(self, place: int) -> BootstrapError:
        """The error if one of them has left."""
        return BootstrapError(
            f"rank {self.members[place]} has left while the ranks were joining",
            rank=self.me,
            missing=(self.members[place],),
        )


def enter(
    job: str,
    place: int,
    members: Sequence[int],
    timeout: float,
    roll: Roll,
) -> Room:
    """Meet the other processes of this host that come to the same job."""
    address = "\0collalgo-" + hashlib.sha256(job.encode()).hexdigest()[:32]
    party = Party(place, members, time.monotonic() + timeout, roll)
    if place == 0:
        descriptor, processes = _host(address, party)
    else:
        descriptor, processes = _join(address, party)
    try:
        segment = mapped(party.size, descriptor)
    finally:
        os.close(descriptor)
    machine = Machine.of_settings(segment.settings()) if party.size > 1 else None
    return Room(segment, processes, machine)


def _host(address: str, party: Party) -> tuple[int, list[int]]:
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
        answer = _ANSWER.pack(_MAGIC, size) + struct.pack(f"={size}I", *processes)
        for place, guest in guests.items():
            try:
                socket.send_fds(guest, [answer], [descriptor])
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
                party.roll.check()
                for key, _ in selector.select(min(left, _LOOK_SECONDS)):
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
        rank: int
        _, rank, its_size = _HELLO.unpack(hello)
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


def _join(address: str, party: Party) -> tuple[int, list[int]]:
    """Any other: say hello to the first and take the memory."""
    with _connect(address, party) as connection:
        _, user, _ = _credentials(connection)
        if user != os.geteuid():
            raise BootstrapError(
                f"rank {party.me}: the rendezvous belongs to user {user}, "
                f"not to user {os.geteuid()}; refusing to join",
                rank=party.me,
            )
        answer = b""
        descriptors: list[int] = []
        with suppress(OSError):
            connection.send(_HELLO.pack(_MAGIC, party.place, party.size))
            _await_answer(connection, party)
            length = max(_ANSWER.size + 4 * party.size, _PROBLEM_BYTES)
            answer, descriptors, _, _ = socket.recv_fds(connection, length, 1)
        expected = _ANSWER.pack(_MAGIC, party.size)
        if answer.startswith(expected) and len(descriptors) == 1:
            return descriptors[0], list(
                struct.unpack(f"={party.size}I", answer[len(expected) :])
            )
        for descriptor in descriptors:
            os.close(descriptor)
        late = time.monotonic() >= party.deadline
        silence = "it gave no answer in time" if late else "it has left"
        raise BootstrapError(
            f"rank {party.me} cannot join rank {party.leader}: "
            f"{answer.decode(errors='replace') or silence}",
            rank=party.me,
        )


def _await_answer(connection: socket.socket, party: Party) -> None:
    """Wait until there is something to be read, in time or not.

    A rank may be gone because it has its answer and has ended: mine is not far then.
    """
    gone: BootstrapError | None = None
    connection.settimeout(2 * _LOOK_SECONDS)
    while time.monotonic() < party.deadline:
        with suppress(TimeoutError):
            connection.recv(1, socket.MSG_PEEK)
            return
        if gone is not None:
            raise gone
        try:
            party.roll.check()
        except BootstrapError as error:
            gone = error


def _connect(address: str, party: Party) -> socket.socket:
    """Connect to the first, which may not have come yet."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(_RETRY_SECONDS)  # not to wait for a full queue
    try:
        while time.monotonic() < party.deadline:
            if _is_open(connection, address):
                return connection
            party.roll.check()
            time.sleep(_RETRY_SECONDS)
    except BaseException:
        connection.close()
        raise
    connection.close()
    raise BootstrapError(
        f"rank {party.me} waited in vain for rank {party.leader} to open the "
        "rendezvous; see whether it was started, and on this host",
        rank=party.me,
        missing=(party.leader,),
    )


def _is_open(connection: socket.socket, address: str) -> bool:
    """Connect, if somebody listens there."""
    try:
        connection.connect(address)
    except (ConnectionRefusedError, BlockingIOError, TimeoutError):
        return False
    return True


def _credentials(connection: socket.socket) -> tuple[int, int, int]:
    """Process, user and group of the other side, as the kernel knows them."""
    data = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
    )
    process, user, group = _CREDENTIALS.unpack(data)
    return process, user, group
