"""The interface of a transport, as seen from Python.

A transport is a compiled subclass of
:class:`collalgo._kernels.engine.transport.transport.Transport`, whose C methods move
the bytes of a plan, and has the members of :class:`RankTransport`, which report its
state. A transport between hosts can be composed of shared memory and a new
:class:`collalgo._kernels.engine.transport.wire.Wire`; see :mod:`.engine`. A new
transport is added to ``tests/support/transports.py``, which runs the conformance test
on it.
"""

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class RankTransport(Protocol):
    """The channels of one rank to all ranks of a world.

    Attributes
    ----------
    rank, size : int
        The rank, and the number of ranks.
    """

    rank: int
    size: int

    @property
    def closed(self) -> bool:
        """Whether this rank has closed the transport."""

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the one that opened the transport."""

    @property
    def completed(self) -> int:
        """The number of calls that this rank has completed."""

    def close(
        self, exit_reason: str = "its communicator was closed", failed: bool = False
    ) -> None:
        """Leave the world, and announce the reason; closing twice does nothing.

        A call of another thread fails with STOP.
        """

    def failure(self) -> dict[str, Any] | None:
        """The failure of the world, or None.

        Keys: ``kind`` (``"timeout"``, ``"peer"``, ``"mismatch"`` or ``"elsewhere"``),
        ``rank`` (the reporter), ``culprit``, ``sequence`` (of the call), ``waited``
        (seconds), ``mine`` and ``theirs`` (the calls), ``missing`` (ranks),
        ``last_calls`` and ``exit_reason``.
        """
