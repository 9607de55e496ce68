"""The errors of messages: which ranks, which message, what to do."""

from typing import Any, NamedTuple

from collalgo._kernels.comm.point_to_point.message import Message
from collalgo.comm.call_text import call_name
from collalgo.comm.hang_hint import with_hint
from collalgo.comm.object_frames import LENGTHS
from collalgo.engine.dtypes import dtype_code, dtype_text
from collalgo.errors import (
    CollectiveTimeout,
    CommunicatorClosed,
    MismatchError,
    PeerFailed,
)

#: The name of a message in errors.
MESSAGE = "message"

#: The number of the dtype of the message that announces an object.
OBJECT = dtype_code(LENGTHS)

#: A rank and the collective that it is in.
InCollective = tuple[int, dict[str, Any] | None]


class End(NamedTuple):
    """The argument of one of the two ranks of a message."""

    rank: int
    dtype: int
    count: int  # type: ignore[assignment]  # it hides a method that is not used
    on_device: bool = False


def mismatch(number: int, sender: End, receiver: End, rank: int) -> MismatchError:
    """The error of both ranks of a message, in the same words; raised on ``rank``."""
    if sender.dtype != receiver.dtype:
        what, ours, its = "dtype", _elements(sender), _elements(receiver)
    elif sender.count != receiver.count:
        what = "count"
        ours, its = f"{sender.count} elements", f"{receiver.count} elements"
    else:
        what = "kind of memory"
        ours, its = (
            "an array " + ("on a device" if end.on_device else "of the host")
            for end in (sender, receiver)
        )
    return MismatchError(
        f"{MESSAGE} #{number}: rank {sender.rank} sent {ours} but rank "
        f"{receiver.rank} receives {its}; {_advice(sender, what)}",
        rank=rank,
        sequence=number,
        collective=MESSAGE,
        missing=(receiver.rank if rank == sender.rank else sender.rank,),
    )


def _elements(end: End) -> str:
    """The name of the dtype of a message, or what it announces."""
    return "an object" if end.dtype == OBJECT else dtype_text(end.dtype)


def _advice(sender: End, what: str) -> str:
    if sender.dtype == OBJECT:
        return "receive it by recv_object"
    return f"both must pass the same {what}"


def no_object(rank: int, sender: int, dtype: str, size: int) -> MismatchError:
    """A receive of an object whose next message is an array."""
    return MismatchError(
        f"recv_object: rank {sender} sent rank {rank} {size} elements of {dtype}, not "
        "an object; receive them by recv, or send by send_object",
        rank=rank,
        collective=MESSAGE,
        missing=(sender,),
    )


def peer_left(message: str, rank: int, peer: int, why: str) -> PeerFailed:
    """The other rank of a call has left."""
    return PeerFailed(
        f"{message}: rank {peer} is gone: {why}",
        rank=rank,
        collective=MESSAGE,
        missing=(peer,),
    )


def unreadable(message: str, rank: int, peer: int, why: str) -> PeerFailed:
    """The memory of the other rank, which is alive, can no longer be read."""
    return PeerFailed(
        f"{message}: rank {rank} cannot read the memory of rank {peer} any more "
        f"({why}); the processes must keep the rights that they had when they "
        "connected, and the array its memory",
        rank=rank,
        collective=MESSAGE,
        missing=(peer,),
    )


def closed(call: str, rank: int) -> CommunicatorClosed:
    """The communicator was closed by its own rank."""
    return CommunicatorClosed(
        f"{call}: this communicator is closed; make a new one",
        rank=rank,
        collective=MESSAGE,
    )


def all_left(message: Message, rank: int, others: tuple[int, ...]) -> PeerFailed:
    """All ranks that could send a message have left."""
    return PeerFailed(
        f"{message.name}: rank {rank} waits for a message from any rank under tag "
        f"{message.tag}, but all others have closed their communicator",
        rank=rank,
        missing=others,
    )


def no_message(
    message: Message,
    rank: int,
    peers: tuple[int, ...],
    busy: InCollective | None = None,
) -> CollectiveTimeout:
    """A receive that was cancelled, and one of its senders that is in a collective."""
    awaited = "a message from any rank"
    if message.source is not None:
        awaited = f"rank {peers[0]} to send a message"
    error = CollectiveTimeout(
        f"{message.name}: rank {rank} waited {message.timeout:g} s for {awaited} under "
        f"tag {message.tag}{_meanwhile(rank, busy)}; send one, or wait longer",
        rank=rank,
        missing=peers,
    )
    return with_hint(error)


def _meanwhile(rank: int, busy: InCollective | None) -> str:
    """The note that a rank is in a collective, and so waits for this rank, too."""
    if busy is None or busy[1] is None:
        return ""
    named = f"{call_name(busy[1])} #{busy[1]['number']}"
    return f", but rank {busy[0]} is in {named}, which rank {rank} has not called"


def probe_error(
    call: str,
    source: int | None,
    tag: int,
    rank: int,
    peers: tuple[int, ...],
    seconds: float,
    busy: InCollective | None,
) -> CollectiveTimeout:
    """A probe that found no message."""
    sender = "any rank" if source is None else f"rank {source}"
    return CollectiveTimeout(
        f"{call}: rank {rank} waited {seconds:g} s for a message from {sender} under "
        f"tag {tag}{_meanwhile(rank, busy)}; send one, or wait longer",
        rank=rank,
        missing=peers,
    )


def not_received(
    message: Message, rank: int, peer: int, busy: InCollective | None
) -> CollectiveTimeout:
    """A send that was cancelled, and whether its receiver is in a collective."""
    error = CollectiveTimeout(
        f"{MESSAGE} #{message.number}: rank {rank} waited {message.timeout:g} s for "
        f"rank {peer} to receive it under tag {message.tag}{_meanwhile(rank, busy)}; "
        "receive it, or wait longer",
        rank=rank,
        sequence=message.number,
        collective=MESSAGE,
        missing=(peer,),
    )
    return with_hint(error)


def withdrawn(number: int, rank: int, peer: int, tag: int) -> CollectiveTimeout:
    """A message that its sender has cancelled."""
    return CollectiveTimeout(
        f"{MESSAGE} #{number}: rank {peer} no longer waits for rank {rank} to receive "
        f"it under tag {tag}; receive earlier, or wait longer there",
        rank=rank,
        sequence=number,
        collective=MESSAGE,
        missing=(peer,),
    )


def cancelled(call: str) -> Exception:
    """A receive that its own rank has cancelled."""
    from concurrent.futures import CancelledError  # which takes a while

    return CancelledError(f"{call} was cancelled before a message had reached it")


def not_connected(call: str, rank: int, peer: int, timeout: float) -> CollectiveTimeout:
    """The other rank has made no call with this rank."""
    error = CollectiveTimeout(
        f"{call}: rank {rank} waited {timeout:g} s for rank {peer}, which has neither "
        "sent to it nor received from it; make the call there too, or pass a longer "
        "timeout here",
        rank=rank,
        missing=(peer,),
    )
    return with_hint(error)
