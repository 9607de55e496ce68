"""The point-to-point calls of a communicator: send and receive."""

from typing import TYPE_CHECKING, Any, NamedTuple

from collalgo._kernels.comm.method import method
from collalgo.comm.runner import Runner
from collalgo.engine.arrays import as_array, check_overlap

if TYPE_CHECKING:  # imported at the first message
    from collalgo._kernels.comm.point_to_point.mailbox import Mailbox
    from collalgo._kernels.comm.point_to_point.message import Message


class Envelope(NamedTuple):
    """The result of a probe: a message that has arrived.

    Attributes
    ----------
    source : int
        The rank of the sender.
    dtype : str
        The name of its dtype.
    size : int
        The number of its elements.
    """

    source: int
    dtype: str
    size: int


class Messages:
    """Point-to-point messages between two ranks of a communicator.

    Attributes
    ----------
    timeout : float
        The default timeout of a call in seconds.
    """

    timeout: float
    _mailbox: "Mailbox"
    _runner: Runner

    @method
    def send(
        self, buf: Any, to: int, tag: int = 0, *, timeout: float | None = None
    ) -> Any:
        """Send an array to one rank.

        Parameters
        ----------
        buf
            The array.
        to
            The rank of the receiver, which may be this one for an array of the host.
            The call then returns immediately for any length, and keeps a copy until
            the message is received or the communicator is closed.
        tag
            An integer from 0 to 2**63 - 1; messages of different tags are independent.
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
        waiting = self._runner.waiting(timeout)
        return self._mailbox.send(buf, to, tag, waiting)

    @method
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
        waiting = self._runner.waiting(timeout)
        return self._mailbox.recv(buf, source, tag, waiting)

    @method
    def sendrecv(
        self,
        buf: Any,
        to: int,
        out: Any,
        source: int | None,
        tag: int = 0,
        *,
        recv_tag: int | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Send an array to one rank and receive one from a rank, at the same time.

        So ranks may swap arrays of any length, or shift them around a ring, without a
        rank that sends first.

        Parameters
        ----------
        buf, to, tag
            The array to send, its receiver and tag; see :meth:`send`.
        out, source
            The array to receive into and the sender; see :meth:`recv`. ``out`` has
            memory of its own.
        recv_tag
            The tag of the message that is received; by default ``tag``.
        timeout
            Seconds to wait; by default that of the communicator.

        Returns
        -------
        array
            ``out``.
        """
        waiting = self._runner.waiting(timeout)
        arrays = as_array(buf, "sendrecv"), as_array(out, "sendrecv")
        check_overlap(*arrays, None, "sendrecv")
        expected = tag if recv_tag is None else recv_tag
        return self._mailbox.sendrecv(buf, to, tag, out, source, expected, waiting)

    @method
    def isend(self, buf: Any, to: int, tag: int = 0) -> "Message":
        """Send in the background; see :meth:`send` and :class:`Work`."""
        return self._mailbox.isend(buf, to, tag, self._runner.seconds)

    @method
    def irecv(self, buf: Any, source: int | None, tag: int = 0) -> "Message":
        """Receive in the background; see :meth:`recv` and :class:`Work`.

        With ``source`` None, the attribute ``source`` of the result is the sender once
        the message has arrived.
        """
        return self._mailbox.irecv(buf, source, tag, self._runner.seconds)

    @method
    def probe(
        self, source: int | None, tag: int = 0, *, timeout: float | None = None
    ) -> Envelope:
        """Wait for a message without receiving it, to know its sender and length.

        Parameters
        ----------
        source
            The rank of the sender; None for any.
        tag
            The tag of the message.
        timeout
            Seconds to wait; by default that of the communicator.

        Raises
        ------
        CollectiveTimeout
            If no message arrives in time.
        PeerFailed
            If the sender has left.
        """
        waiting = self._runner.waiting(timeout)
        return Envelope(*self._mailbox.probe(source, tag, waiting))

    @method
    def iprobe(self, source: int | None, tag: int = 0) -> Envelope | None:
        """The message that :meth:`probe` waits for, or None if none has arrived."""
        found = self._mailbox.iprobe(source, tag, self._runner.seconds)
        return None if found is None else Envelope(*found)


def mailbox_of(comm: Messages) -> "Mailbox":
    """The mailbox of a communicator, for interfaces with a matching of their own."""
    return comm._mailbox
