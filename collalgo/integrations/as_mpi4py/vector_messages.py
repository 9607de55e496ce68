"""Collectives of blocks of any lengths in the background, as messages of their own.

The library would exchange the lengths first, for which each rank waits for all others.
"""

from collections.abc import Callable, Sequence
from typing import Any

from collalgo.comm.object_frames import blocks_of
from collalgo.integrations.as_mpi4py.calls import Call
from collalgo.integrations.as_mpi4py.errors import fail
from collalgo.integrations.as_mpi4py.memory import Bytes
from collalgo.integrations.as_mpi4py.message_operations import Receive
from collalgo.integrations.as_mpi4py.operations import Operation, Several
from collalgo.integrations.as_mpi4py.process import PROCESS

#: What distinguishes these messages from those of the program.
BIT = 4


def start(comm: Any, call: Call) -> Operation:
    """Make a call in the background; all ranks make such calls in one order."""
    return Several(BEGIN[call.name](comm.state, call), call.finish)


def _gatherv(state: Any, call: Call) -> list[Operation]:
    mine, root = call.arguments["buf"], call.arguments["root"]
    if state.rank != root:
        return [_send(state, mine, root)]
    rows = blocks_of(call.arguments["out"], call.sizes)
    _copy(mine, rows[root])
    return _received(state, rows)


def _scatterv(state: Any, call: Call) -> list[Operation]:
    root, out = call.arguments["root"], call.arguments["out"]
    if state.rank != root:
        return [_receive(state, out, root)]
    rows = blocks_of(call.arguments["buf"], call.sizes)
    _copy(rows[root], out)
    return _sent(state, rows)


def _alltoallv(state: Any, call: Call) -> list[Operation]:
    sent = blocks_of(call.arguments["buf"], call.arguments["counts"])
    rows = blocks_of(call.arguments["out"], call.sizes)
    if not state.is_inter:
        _copy(sent[state.rank], rows[state.rank])
    return [*_received(state, rows), *_sent(state, sent)]


BEGIN: dict[str, Callable[[Any, Call], list[Operation]]] = {
    "gatherv": _gatherv,
    "scatterv": _scatterv,
    "alltoallv": _alltoallv,
}


def _others(state: Any) -> Sequence[int]:
    """The places of the others: of the other group, or from the next rank on."""
    if state.is_inter:
        return range(state.remote_place, state.remote_place + len(state.remote))
    return [(state.rank + step) % state.size for step in range(1, state.size)]


def _sent(state: Any, rows: Sequence[Bytes]) -> list[Operation]:
    return [_send(state, rows[place], place) for place in _others(state)]


def _received(state: Any, rows: Sequence[Bytes]) -> list[Operation]:
    return [_receive(state, rows[place], place) for place in _others(state)]


def _send(state: Any, row: Bytes, place: int) -> Operation:
    matching, to = PROCESS.matching, state.members[place]
    return matching.send(state.context | BIT, PROCESS.world.rank, to, 0, row)


def _receive(state: Any, row: Bytes, place: int) -> Operation:
    matching, sender = PROCESS.matching, state.members[place]
    receive = Receive(
        matching,
        (sender,),
        state.context | BIT,
        sender,
        0,
        lambda nbytes: (row[:nbytes], None),
        len(row),
    )
    matching.receive(receive)
    return receive


def _copy(row: Bytes, target: Bytes) -> None:
    """Copy the block of this rank for itself."""
    if len(row) > len(target):
        fail("ERR_TRUNCATE", f"{len(row)} bytes do not fit into the {len(target)} here")
    target[: len(row)] = row
