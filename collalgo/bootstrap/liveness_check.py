"""Checks that the processes which join a rendezvous are alive."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo.errors import BootstrapError

if TYPE_CHECKING:  # jobs on one host need no store
    from collalgo.bootstrap.store.protocol import PendingValue

#: Seconds between two checks.
LIVENESS_SECONDS = 0.1


#: How the reasons of ranks begin that left because another one did.
CONSEQUENCES = ("PeerFailed:", "CommunicatorRevoked:")


class ProcessGone(BootstrapError):
    """A rank that others wait for cannot join any more; ``missing`` names it.

    Attributes
    ----------
    why : str
        The reason of its end.
    """

    def __init__(self, me: int, gone: int, why: str):
        super().__init__(
            f"rank {me} waited for rank {gone} to join, but it is gone: {why}",
            rank=me,
            missing=(gone,),
        )
        self.why = why


class LivenessCheck(Protocol):
    """Detects the end of one of some processes."""

    def check(self) -> None:
        """Raise ProcessGone if one of them has ended."""


class GroupLivenessCheck(LivenessCheck, Protocol):
    """Detects the end of one of some processes, or of one of a part of them."""

    def of(self, members: Sequence[int]) -> "GroupLivenessCheck":
        """The check of some of the processes, by their positions."""


class LivenessWatch(LivenessCheck, Protocol):
    """Detects the end of one of some processes, and then ends waits for their keys."""

    def wait(self, pending: "PendingValue", timeout: float) -> bytes:
        """The value of a key; BootstrapError as soon as one of them has ended."""


class NoLivenessCheck:
    """Detects nothing, as nothing is known of the processes."""

    def of(self, _members: Sequence[int]) -> "NoLivenessCheck":
        return self

    def check(self) -> None:
        pass

    def wait(self, pending: "PendingValue", timeout: float) -> bytes:
        """The value of a key, once it is set."""
        return pending.result(timeout)


def check_alive(transport: SharedMemory, ranks: Sequence[int]) -> None:
    """Raise ProcessGone if one of some ranks of a world on one host has left it."""
    me = transport.rank
    if transport.closed:
        raise BootstrapError(f"rank {me} has closed its communicator", rank=me)
    # A rank may have left, normally or by an error, because another died.
    gone = sorted(
        (in_order, why.startswith(CONSEQUENCES), rank, why)
        for rank in ranks
        if (departure := transport.departure(rank))
        for in_order, why in [departure]
    )
    if gone:
        *_, rank, why = gone[0]
        raise ProcessGone(me, rank, why)
