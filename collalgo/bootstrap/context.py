"""A rank's end of a world with all that belongs to it, and how long it waits."""

import hashlib
import math
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from collalgo._kernels.engine.transport.composite import Composite
from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo.cost.host_profile import HostProfile

if TYPE_CHECKING:  # for what only some need
    from collalgo.topology.model import Topology

#: Seconds that a call waits for the other ranks, unless told otherwise.
TIMEOUT = 300.0

#: Seconds that a rank waits for the others to come up.
JOIN_TIMEOUT = 60.0


class Rendezvous(Protocol):
    """How a communicator came up, and how its groups can."""

    def connect(
        self,
        name: str,
        rank: int,
        members: Sequence[int],
        timeout: float = JOIN_TIMEOUT,
        /,
    ) -> "Context":
        """My end of the new world of some ranks, that all of them call by one name."""


class FailureAgreement(Protocol):
    """The place of a rank in a world on several hosts."""

    def decision(self, failure: dict[str, Any]) -> dict[str, Any]:
        """What all ranks agree has failed, of which some knows this."""

    def leave(self, exit_reason: str) -> None:
        """Tell the ranks on other hosts that this one has left, and why."""


def label_of(job: str, name: str) -> str:
    """A few words for a world of a job; what only its ranks share stays hidden."""
    return f"{hashlib.sha256(job.encode()).hexdigest()[:8]} {name or 'world'}"


class Context:
    """An end of a world with all that is to be released with it.

    Attributes
    ----------
    transport : SharedMemory or Composite
        The end.
    rendezvous : Rendezvous
        How groups of its ranks can come up.
    machine : HostProfile or None
        The figures that all ranks of the world have agreed upon.
    hosts : tuple of int
        The number of the host of each rank.
    ground : callable or None
        Of several hosts: gives their topology, and the device of each rank.
    label : str
        What all ranks of the world call it, in no more than a few words.
    engine : str or None
        What carries messages between its hosts; None if it has only one.
    pair : tuple of int or None
        The ranks of a larger world whose messages it carries, as errors call them;
        None if it is a world in its own right.
    """

    pair: tuple[int, int] | None = None

    def __init__(
        self,
        transport: SharedMemory | Composite,
        rendezvous: Rendezvous,
        machine: HostProfile | None = None,
        descriptors: Sequence[int] = (),
        hosts: Sequence[int] = (),
        failure_agreement: FailureAgreement | None = None,
        ground: "Callable[[], tuple[Topology, Sequence[str]]] | None" = None,
        label: str = "world",
        engine: str | None = None,
    ):
        self.transport = transport
        self.rendezvous = rendezvous
        self.machine = machine
        self.descriptors = list(descriptors)
        self.hosts = tuple(hosts) or (0,) * transport.size
        self.ground = ground
        self.label = label
        self.engine = engine
        self._failure_agreement = failure_agreement

    @property
    def shared(self) -> SharedMemory:
        """The part of the end that the ranks of this host share."""
        transport = self.transport
        return transport if isinstance(transport, SharedMemory) else transport.shared

    def failure(self) -> dict[str, Any]:
        """What has broken the world, as all its ranks tell it."""
        failure = self.shared.failure()
        assert failure is not None
        return (
            failure
            if self._failure_agreement is None
            else self._failure_agreement.decision(failure)
        )

    def release(self) -> None:
        """Tell the others, unmap the memory and close the descriptors."""
        self._leave("its communicator was closed", failed=False)

    def abort(self, reason: str) -> None:
        """Release because of an error, and tell the others the reason."""
        self._leave(reason, failed=True)

    def _leave(self, exit_reason: str, *, failed: bool) -> None:
        if self._failure_agreement is not None and not (
            self.transport.closed or self.transport.forked
        ):
            self._failure_agreement.leave(exit_reason)
        self.transport.close(exit_reason, failed)
        while self.descriptors:
            os.close(self.descriptors.pop())


def seconds(timeout: float) -> float:
    """A timeout as the engine takes it: negative to wait for ever."""
    if not hasattr(timeout, "__float__"):
        raise TypeError(
            f"timeout is {timeout!r}, of type {type(timeout).__name__}; pass seconds "
            "above 0, or math.inf"
        )
    if not timeout > 0:
        raise ValueError(f"timeout {timeout!r}: need seconds above 0, or math.inf")
    return -1.0 if math.isinf(timeout) else float(timeout)


def default_timeout() -> float:
    """The timeout of new communicators: ``COLLALGO_TIMEOUT`` or :data:`TIMEOUT`."""
    text = os.environ.get("COLLALGO_TIMEOUT") or str(TIMEOUT)
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"COLLALGO_TIMEOUT={text!r} is no number of seconds") from None
