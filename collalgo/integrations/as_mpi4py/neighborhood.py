"""The collectives between neighbors, as messages on a context of their own."""

from collections.abc import Sequence
from typing import Any

from collalgo.integrations.as_mpi4py.calls import forms
from collalgo.integrations.as_mpi4py.constants import PROC_NULL
from collalgo.integrations.as_mpi4py.errors import fail, raises_mpi_exceptions
from collalgo.integrations.as_mpi4py.memory import Bytes
from collalgo.integrations.as_mpi4py.message_operations import Receive
from collalgo.integrations.as_mpi4py.object_messages import bytes_of
from collalgo.integrations.as_mpi4py.operations import Empty, Operation, Several
from collalgo.integrations.as_mpi4py.parts import Part, equal_blocks
from collalgo.integrations.as_mpi4py.pickling import object_of, object_target
from collalgo.integrations.as_mpi4py.process import PROCESS
from collalgo.integrations.as_mpi4py.specs import simple, vector, vector_of_types

#: What distinguishes these messages from those of the program.
BIT = 1

#: What goes to each neighbor, and where the message of each goes.
Exchange = tuple[Sequence[Bytes], Sequence[Part]]


def begin(comm: Any, exchange: Exchange) -> Operation:
    """Begin an exchange with the neighbors."""
    sent, received = exchange
    targets = [(part.target, part.nbytes, None) for part in received]
    return _begin(comm, sent, targets)


def _begin(comm: Any, sent: Sequence[Bytes], targets: Sequence[Any]) -> Operation:
    received = _receive(comm, targets)
    try:
        sends = _send(comm, sent)
    except BaseException:
        Several(received).cancel()
        raise
    return Several([*received, *sends], lambda: [one.value for one in received])


def _receive(comm: Any, targets: Sequence[Any]) -> list[Operation]:
    """Begin the receives from all neighbors."""
    state, matching, found = comm.state, PROCESS.matching, []
    sources, tags = comm.adjacent()[0], state.topology.tags(state.rank)[0]
    for source, tag, target in zip(sources, tags, targets, strict=True):
        receive: Any = Empty()
        if source != PROC_NULL:
            senders, context = (state.ranks[source],), state.context | BIT
            receive = Receive(matching, senders, context, source, tag, *target)
            matching.receive(receive)
        found.append(receive)
    return found


def _send(comm: Any, sent: Sequence[Bytes]) -> list[Operation]:
    """Begin the sends to all neighbors."""
    state, context = comm.state, comm.state.context | BIT
    others, tags = comm.adjacent()[1], state.topology.tags(state.rank)[1]
    return [
        PROCESS.matching.send(context, state.rank, state.ranks[to], tag, data)
        for to, tag, data in zip(others, tags, sent, strict=True)
        if to != PROC_NULL
    ]


def run(comm: Any, exchange: Exchange) -> None:
    """Exchange messages with the neighbors."""
    _finish(begin(comm, exchange))


def _finish(operation: Operation) -> Any:
    operation.wait()
    if operation.error is not None:
        raise operation.error
    return operation.value


def _degrees(comm: Any) -> tuple[int, int]:
    """The numbers of neighbors that send here, and that receive."""
    sources, destinations = comm.adjacent()
    return len(sources), len(destinations)


def neighbor_allgather(comm: Any, sendbuf: Any, recvbuf: Any) -> Exchange:
    """Send a buffer to all neighbors, and receive one of each."""
    incoming, outgoing = _degrees(comm)
    part = simple(recvbuf, writable=True, blocks=incoming)
    return [simple(sendbuf).pack()] * outgoing, equal_blocks(part, incoming)


def neighbor_allgatherv(comm: Any, sendbuf: Any, recvbuf: Any) -> Exchange:
    """As :func:`neighbor_allgather`, with buffers of any lengths."""
    incoming, outgoing = _degrees(comm)
    parts = vector(recvbuf, incoming, writable=True).parts
    return [simple(sendbuf).pack()] * outgoing, parts


def neighbor_alltoall(comm: Any, sendbuf: Any, recvbuf: Any) -> Exchange:
    """Send a block to each neighbor, and receive one of each."""
    incoming, outgoing = _degrees(comm)
    part = simple(recvbuf, writable=True, blocks=incoming)
    sent = equal_blocks(simple(sendbuf, blocks=outgoing), outgoing)
    return [block.pack() for block in sent], equal_blocks(part, incoming)


def neighbor_alltoallv(comm: Any, sendbuf: Any, recvbuf: Any) -> Exchange:
    """As :func:`neighbor_alltoall`, with blocks of any lengths."""
    return _exchange(comm, sendbuf, recvbuf, vector)


def neighbor_alltoallw(comm: Any, sendbuf: Any, recvbuf: Any) -> Exchange:
    """As :func:`neighbor_alltoallv`, with a datatype for each block."""
    return _exchange(comm, sendbuf, recvbuf, vector_of_types)


def _exchange(comm: Any, sendbuf: Any, recvbuf: Any, read: Any) -> Exchange:
    incoming, outgoing = _degrees(comm)
    received = read(recvbuf, incoming, writable=True).parts
    return [part.pack() for part in read(sendbuf, outgoing).parts], received


class Neighborhood:
    """The collectives between neighbors; a mixin of communicators."""

    state: Any

    Neighbor_allgather, Ineighbor_allgather, Neighbor_allgather_init = forms(
        neighbor_allgather, run, begin
    )
    Neighbor_allgatherv, Ineighbor_allgatherv, Neighbor_allgatherv_init = forms(
        neighbor_allgatherv, run, begin
    )
    Neighbor_alltoall, Ineighbor_alltoall, Neighbor_alltoall_init = forms(
        neighbor_alltoall, run, begin
    )
    Neighbor_alltoallv, Ineighbor_alltoallv, Neighbor_alltoallv_init = forms(
        neighbor_alltoallv, run, begin
    )
    Neighbor_alltoallw, Ineighbor_alltoallw, Neighbor_alltoallw_init = forms(
        neighbor_alltoallw, run, begin
    )

    def adjacent(self) -> Any:
        """The ranks that this one receives from, and those that it sends to."""
        return self.state.topology.neighbors(self.state.rank)

    @raises_mpi_exceptions
    def neighbor_allgather(self, sendobj: Any) -> Any:
        """Send an object to all neighbors: those of the neighbors."""
        _, outgoing = _degrees(self)
        return self._swap([bytes_of(sendobj)] * outgoing)

    @raises_mpi_exceptions
    def neighbor_alltoall(self, sendobj: list[Any]) -> Any:
        """Send an object to each neighbor: those of the neighbors."""
        _, outgoing = _degrees(self)
        if len(sendobj) != outgoing:
            fail("ERR_ARG", f"{len(sendobj)} objects are for {outgoing} neighbors")
        return self._swap([bytes_of(obj) for obj in sendobj])

    def _swap(self, sent: Sequence[Bytes]) -> Any:
        incoming, _ = _degrees(self)
        targets = [(object_target, None, object_of)] * incoming
        return _finish(_begin(self, sent, targets))
