"""The point-to-point calls of a communicator: send and receive."""

from typing import Any

from collalgo._kernels.comm.point_to_point.mailbox import Mailbox
from collalgo._kernels.comm.point_to_point.message import Message
from collalgo.bootstrap.context import seconds
from collalgo.comm.runner import Runner


class Messages:
    """Point-to-point messages between two ranks of a communicator.

    Attributes
    ----------
    timeout : float
        The default timeout of a call in seconds.
    """

    timeout: float
    _mailbox: Mailbox
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
            The rank of the receiver, which may be this one.
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
        waiting = self._runner.seconds if timeout is None else seconds(timeout)
        return self._mailbox.send(buf, to, tag, waiting)

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
        waiting = self._runner.seconds if timeout is None else seconds(timeout)
        return self._mailbox.recv(buf, source, tag, waiting)

    def isend(self, buf: Any, to: int, tag: int = 0) -> Message:
        """Send in the background; see :meth:`send` and :class:`Work`."""
        return self._mailbox.isend(buf, to, tag, self._runner.seconds)

    def irecv(self, buf: Any, source: int | None, tag: int = 0) -> Message:
        """Receive in the background; see :meth:`recv` and :class:`Work`.

        With ``source`` None, the attribute ``source`` of the result is the sender once
        the message has arrived.
        """
        return self._mailbox.irecv(buf, source, tag, self._runner.seconds)
