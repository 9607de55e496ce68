"""The point-to-point calls of a communicator: send and receive."""

from typing import Any

from collalgo.base.integers import integer
from collalgo.comm.point_to_point.any_source import AnySource
from collalgo.comm.point_to_point.message import Message
from collalgo.comm.point_to_point.pair import Pair
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
        return self._to(to, tag, "send").send(buf, self._seconds(timeout))

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
        return self._from(source, tag, "recv").recv(buf, self._seconds(timeout))

    def isend(self, buf: Any, to: int, tag: int = 0) -> Message:
        """Send in the background; see :meth:`send` and :class:`Work`."""
        return self._to(to, tag, "isend").isend(buf, self.timeout)

    def irecv(self, buf: Any, source: int | None, tag: int = 0) -> Message:
        """Receive in the background; see :meth:`recv` and :class:`Work`.

        With ``source`` None, the attribute ``source`` of the result is the sender once
        the message has arrived.
        """
        return self._from(source, tag, "irecv").irecv(buf, self.timeout)

    def _to(self, peer: int, tag: int, call: str) -> Pair:
        self._runner.check_open(call)
        name = "source" if call.endswith("recv") else "to"
        peer = integer(peer, name, call, 0, self.size - 1)
        return self._pairs.at(peer, integer(tag, "tag", call, 0), call)

    def _from(self, source: int | None, tag: int, call: str) -> Pair | AnySource:
        if source is not None:
            return self._to(source, tag, call)
        self._runner.check_open(call)
        return self._pairs.from_any(integer(tag, "tag", call, 0), call)

    def _seconds(self, timeout: float | None) -> float:
        return self.timeout if timeout is None else timeout
