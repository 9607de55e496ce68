"""The point-to-point calls of a communicator: send and receive."""

from typing import Any

from collalgo.base.integers import integer
from collalgo.bootstrap.context import checked_timeout
from collalgo.comm.point_to_point.message import Message
from collalgo.comm.point_to_point.pairs import Pairs
from collalgo.comm.runner import Runner


class Messages:
    """Point-to-point messages between two ranks of a communicator.

    Attributes
    ----------
    timeout : float
        The default timeout of a call in seconds.
    """

    timeout: float
    rank: int
    size: int
    _pairs: Pairs
    _runner: Runner

    def send(
        self, buf: Any, to: int, tag: int = 0, *, timeout: float | None = None
    ) -> Any:
        """Send an array to one rank.

        Parameters
        ----------
        buf
            The array.
        to
            The rank of the receiver.
        tag
            An integer from 0; messages with different tags are independent.
        timeout
            Seconds to wait for the receiver; by default that of the communicator.

        Returns
        -------
        array
            ``buf``, which may be changed at once, even before the receiver has the
            message.

        Raises
        ------
        MismatchError
            If the receiver expects another dtype or number of elements.
        CommunicatorClosed
            If this communicator is closed.
        """
        to, tag = self._checked("send", "to", to, tag)
        return self._pairs.send(buf, to, tag, self._seconds(timeout))

    def recv(
        self,
        buf: Any,
        source: int | None,
        tag: int = 0,
        *,
        timeout: float | None = None,
    ) -> Any:
        """Receive an array from one rank, in place; see :meth:`send`.

        With ``source`` None, receive from the first sender; :meth:`irecv` reports it.
        """
        source, tag = self._source("recv", source, tag)
        return self._pairs.recv(buf, source, tag, self._seconds(timeout))

    def isend(self, buf: Any, to: int, tag: int = 0) -> Message:
        """Send in the background; see :meth:`send` and :class:`Work`."""
        to, tag = self._checked("isend", "to", to, tag)
        return self._pairs.isend(buf, to, tag, self.timeout)

    def irecv(self, buf: Any, source: int | None, tag: int = 0) -> Message:
        """Receive in the background; see :meth:`recv` and :class:`Work`.

        With ``source`` None, the attribute ``source`` of the result is the sender once
        the message has arrived.
        """
        source, tag = self._source("irecv", source, tag)
        return self._pairs.irecv(buf, source, tag, self.timeout)

    def _source(
        self, call: str, source: int | None, tag: int
    ) -> tuple[int | None, int]:
        """The source of a message, if it has one, and its tag."""
        if source is not None:
            return self._checked(call, "source", source, tag)
        self._runner.check_open(call)
        if self.size == 1:
            raise ValueError(f"{call}: this communicator has no other rank")
        return None, integer(tag, "tag", call, 0)

    def _checked(self, call: str, name: str, peer: int, tag: int) -> tuple[int, int]:
        """The other rank of a message and its tag."""
        self._runner.check_open(call)
        peer = integer(peer, name, call, 0, self.size - 1)
        tag = integer(tag, "tag", call, 0)
        if peer == self.rank:
            raise ValueError(
                f"{call}: rank {peer} must be another rank of this communicator, which "
                f"has {self.size}; this is rank {self.rank}"
            )
        return peer, tag

    def _seconds(self, timeout: float | None) -> float:
        """How long a call waits; infinite for ever."""
        return self.timeout if timeout is None else checked_timeout(timeout)
