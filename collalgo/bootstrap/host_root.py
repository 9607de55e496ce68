"""The root in the rendezvous of one host: it makes the memory that all share."""

import errno
import os
import resource
import selectors
import time
from collections.abc import Sequence
from contextlib import suppress

from collalgo._kernels.engine.transport.memory_access import can_read_memory_of
from collalgo.base.code_identity import dates_of_code
from collalgo.base.unix_socket import UnixSocket
from collalgo.bootstrap.join_request import (
    HELLO,
    MAGIC,
    JoinRequest,
    answer,
)
from collalgo.bootstrap.liveness_check import LIVENESS_SECONDS
from collalgo.cost.host_profile import host_profile
from collalgo.engine.transport import shm
from collalgo.engine.transport.waiting import cores
from collalgo.errors import BootstrapError

#: The most connections that have not sent their rank yet, besides those of peers.
VISITORS = 64


def serve(address: str, join_request: JoinRequest) -> tuple[int, list[int]]:
    """Make the memory, wait for all peers, and pass it to them.

    Returns
    -------
    tuple
        The descriptor of the memory, and the process ids of all ranks.
    """
    descriptor = shm.create(join_request.size)
    joining = _Joining(join_request)
    if join_request.size == 1:
        return descriptor, joining.processes
    try:
        with _listen(address, join_request) as listener:
            joining.wait(listener)
        _describe_machine(descriptor, joining.processes)
        joining.send(descriptor)
    except BaseException as error:
        os.close(descriptor)
        joining.refuse(error)
        raise
    finally:
        joining.close()
    return descriptor, joining.processes


def _describe_machine(descriptor: int, processes: list[int]) -> None:
    """Write the profile of the host into the memory, for all ranks."""
    machine = host_profile()._replace(cores=cores(processes))
    if not can_read_memory_of(processes[1:]):
        machine = machine._replace(fetch=machine.exchange)
    settings = [*machine.settings(), float(dates_of_code())]
    shm.set_settings(descriptor, len(processes), settings)


def _listen(address: str, join_request: JoinRequest) -> UnixSocket:
    listener = UnixSocket()
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


class _Joining:
    """The peers that join, and connections that may be peers.

    A connection is read when its request has arrived, so that a slow or foreign one
    delays no other.
    """

    def __init__(self, join_request: JoinRequest):
        self.processes = [os.getpid()] + [0] * (join_request.size - 1)
        self._request = join_request
        self._peers: dict[int, UnixSocket] = {}
        self._unknown: dict[UnixSocket, None] = {}  # the oldest first

    def wait(self, listener: UnixSocket) -> None:
        """Wait until all peers have sent their request."""
        late = self._request.late_ranks()
        with selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            while len(self._peers) < self._request.size - 1:
                left = self._request.deadline - time.monotonic()
                if left <= 0:
                    raise _timed_out(self._missing(), self._request)
                self._request.liveness.check()
                late.check(self._missing)
                for key, _ in selector.select(min(left, LIVENESS_SECONDS)):
                    self._handle(key, listener, selector)

    def _missing(self) -> list[int]:
        """The ranks that have not joined."""
        named = enumerate(self._request.members)
        return [member for rank, member in named if rank and rank not in self._peers]

    def _handle(
        self,
        key: selectors.SelectorKey,
        listener: UnixSocket,
        selector: selectors.BaseSelector,
    ) -> None:
        if key.fileobj is listener:
            self._accept(listener, selector)
            return
        if key.fileobj not in self._unknown and key.data is None:
            return  # closed since the selector has seen it
        if key.data is not None:  # a peer, which has nothing more to send
            raise self._request.left(key.data)
        assert isinstance(key.fileobj, UnixSocket)
        connection = key.fileobj
        selector.unregister(connection)
        self._unknown.pop(connection)
        rank = self._admit(connection)
        if rank is not None:
            selector.register(connection, selectors.EVENT_READ, rank)

    def _accept(self, listener: UnixSocket, selector: selectors.BaseSelector) -> None:
        """Accept a connection of this user, and keep no more than may be needed."""
        try:
            connection = listener.accept()
        except BlockingIOError:  # it has left
            return
        except OSError as error:
            raise _no_descriptor(error, self._request) from None
        connection.setblocking(False)
        _, user, _ = connection.credentials()
        if user != os.geteuid():
            _refuse(connection, f"user {user} is not user {os.geteuid()}")
            return
        self._unknown[connection] = None
        selector.register(connection, selectors.EVENT_READ)
        if len(self._unknown) > VISITORS + self._request.size:
            oldest = next(iter(self._unknown))
            selector.unregister(oldest)
            self._unknown.pop(oldest)
            _refuse(oldest, "it has not sent its rank")

    def _admit(self, connection: UnixSocket) -> int | None:
        """The rank of a connection; None if it was refused."""
        hello = b""
        with suppress(OSError):
            hello = connection.recv(HELLO.size + 1)
        problem = self._problem(hello)
        if problem is not None:
            _refuse(connection, problem)
            return None
        rank: int = HELLO.unpack(hello)[1]
        if rank in self._peers:
            twice = self._joined_twice(rank)
            _refuse(connection, str(twice))
            raise twice
        self._peers[rank] = connection
        self.processes[rank], _, _ = connection.credentials()
        return rank

    def _joined_twice(self, rank: int) -> BootstrapError:
        member = self._request.members[rank]
        return BootstrapError(
            f"two processes have joined as rank {member}; start each rank once",
            rank=self._request.me,
        )

    def _problem(self, hello: bytes) -> str | None:
        """The reason to refuse a request; None for a process that is missing."""
        if len(hello) != HELLO.size or not hello.startswith(MAGIC):
            return "it does not speak this version of collalgo's protocol"
        _, rank, its_size = HELLO.unpack(hello)
        size = self._request.size
        if its_size != size:
            return f"it is one of {its_size} ranks but rank 0 is one of {size}"
        if not 0 < rank < size:
            return f"rank {rank} of {size} is out of range"
        return None

    def send(self, descriptor: int) -> None:
        """Pass the memory to all peers."""
        message = answer(self.processes)
        for rank, peer in self._peers.items():
            try:
                peer.send_with(message, descriptor)
            except OSError:
                raise self._request.left(rank) from None

    def refuse(self, error: BaseException) -> None:
        """Send all peers the reason why they cannot connect."""
        for peer in self._peers.values():
            with suppress(OSError):
                peer.send(str(error).encode())

    def close(self) -> None:
        """Close all connections."""
        for connection in (*self._peers.values(), *self._unknown):
            connection.close()


def _refuse(connection: UnixSocket, problem: str) -> None:
    """Send the reason to a process, and close its connection."""
    from logging import getLogger  # 2 ms, which no rank needs to join

    process, _, _ = connection.credentials()
    getLogger("collalgo").warning(
        "process %d was refused at the rendezvous: %s", process, problem
    )
    with connection, suppress(OSError):
        connection.send(problem.encode())


def _no_descriptor(error: OSError, join_request: JoinRequest) -> BootstrapError:
    """The error of a root that cannot accept a connection."""
    advice = ""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        advice = (
            f"; at most {limit} files may be open in it, and {join_request.size - 1} "
            "ranks join: raise the limit (ulimit -n)"
        )
    return BootstrapError(
        f"rank {join_request.me} cannot accept the ranks that join ({error}){advice}",
        rank=join_request.me,
    )


def _timed_out(missing: Sequence[int], join_request: JoinRequest) -> BootstrapError:
    return BootstrapError(
        f"rank {join_request.me} waited {join_request.timeout:g} s for ranks "
        f"{list(missing)} of {join_request.size}, which did not join; check "
        "that they were started, and on this host, or pass init a longer join_timeout",
        rank=join_request.me,
        missing=tuple(missing),
    )
