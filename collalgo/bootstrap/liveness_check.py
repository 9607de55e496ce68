"""Checks that the processes which join a rendezvous are alive."""

from collections.abc import Sequence
from typing import Protocol

from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo.errors import BootstrapError

#: Seconds between two checks.
LIVENESS_SECONDS = 0.1


class LivenessCheck(Protocol):
    """Detects the end of one of some processes."""

    def check(self) -> None:
        """Raise BootstrapError if one of them has ended."""


class GroupLivenessCheck(LivenessCheck, Protocol):
    """Detects the end of one of some processes, or of one of a part of them."""

    def of(self, members: Sequence[int]) -> "GroupLivenessCheck":
        """The check of some of the processes, by their positions."""


class NoLivenessCheck:
    """Detects nothing, as nothing is known of the processes."""

    def of(self, _members: Sequence[int]) -> "NoLivenessCheck":
        return self

    def check(self) -> None:
        pass


class HostLivenessCheck:
    """Detects the end of processes of one host by a world that they share.

    Parameters
    ----------
    transport
        The transport of this rank in that world.
    other
        Another check of the same processes.
    ranks
        Their ranks in that world.
    """

    def __init__(
        self, transport: SharedMemory, other: LivenessCheck, ranks: Sequence[int]
    ):
        self._transport, self._other, self._ranks = transport, other, ranks

    def check(self) -> None:
        self._other.check()
        me = self._transport.rank
        if self._transport.closed:
            raise BootstrapError(f"rank {me} has closed its communicator", rank=me)
        # A rank may have left normally because another died.
        gone = sorted(
            (*departure, rank)
            for rank in self._ranks
            if (departure := self._transport.departure(rank))
        )
        if gone:
            _, why, rank = gone[0]
            raise BootstrapError(
                f"rank {me} waited for rank {rank}, which is gone: {why}",
                rank=me,
                missing=(rank,),
            )
