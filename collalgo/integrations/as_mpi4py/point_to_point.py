"""Messages of buffers: send and receive in all modes, probe, and matched receives."""

from collections.abc import Callable
from typing import Any

from collalgo.integrations.as_mpi4py.constants import (
    ANY_SOURCE,
    ANY_TAG,
    PROC_NULL,
)
from collalgo.integrations.as_mpi4py.errors import raises_mpi_exceptions
from collalgo.integrations.as_mpi4py.message_operations import (
    SENT,
    Probing,
    note_test,
)
from collalgo.integrations.as_mpi4py.messages import (
    MESSAGE_NO_PROC,
    Message,
    MessageState,
)
from collalgo.integrations.as_mpi4py.operations import Empty, Operation
from collalgo.integrations.as_mpi4py.parts import NOTHING
from collalgo.integrations.as_mpi4py.prequests import Prequest
from collalgo.integrations.as_mpi4py.process import PROCESS
from collalgo.integrations.as_mpi4py.requests import Request
from collalgo.integrations.as_mpi4py.sending import (
    BUFFERED,
    READY,
    STANDARD,
    SYNCHRONOUS,
    Sending,
    finished,
    senders_of,
)
from collalgo.integrations.as_mpi4py.specs import simple


def _sends(mode: str) -> list[Callable[..., Any]]:
    """The three calls that send in a mode."""

    def start(self: Any, buf: Any, dest: int, tag: int) -> Operation:
        data = simple(buf, rank=dest).source()
        sent: Operation = self.send_bytes(data, dest, tag, mode)
        return sent

    @raises_mpi_exceptions
    def send(self: Any, buf: Any, dest: int, tag: int = 0) -> None:
        """Send a buffer to a rank."""
        finished(start(self, buf, dest, tag))

    @raises_mpi_exceptions
    def isend(self: Any, buf: Any, dest: int, tag: int = 0) -> Any:
        """Send a buffer to a rank in the background."""
        return Request.of(start(self, buf, dest, tag))

    @raises_mpi_exceptions
    def send_init(self: Any, buf: Any, dest: int, tag: int = 0) -> Any:
        """Prepare a send for many repetitions."""
        simple(buf, rank=dest)
        return Prequest.of_start(lambda: start(self, buf, dest, tag))

    return [send, isend, send_init]


class BufferMessages(Sending):
    """The messages of buffers; a mixin of communicators."""

    Send, Isend, Send_init = _sends(STANDARD)
    Bsend, Ibsend, Bsend_init = _sends(BUFFERED)
    Ssend, Issend, Ssend_init = _sends(SYNCHRONOUS)
    Rsend, Irsend, Rsend_init = _sends(READY)

    def _receive(self, buf: Any, source: int, tag: int) -> Operation:
        return self.receive_part(simple(buf, writable=True, rank=source), source, tag)

    @raises_mpi_exceptions
    def Recv(
        self,
        buf: Any,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Any = None,
    ) -> None:
        """Receive a message, which may be shorter than the buffer."""
        finished(self._receive(buf, source, tag), status)

    @raises_mpi_exceptions
    def Irecv(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Any:
        """Receive a message in the background."""
        return Request.of(self._receive(buf, source, tag))

    @raises_mpi_exceptions
    def Recv_init(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Any:
        """Prepare a receive for many repetitions."""
        simple(buf, writable=True, rank=source)
        return Prequest.of_start(lambda: self._receive(buf, source, tag))

    @raises_mpi_exceptions
    def Isendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Any:
        """Send a message and receive one, in the background."""
        sent = simple(sendbuf, rank=dest).source()
        part = simple(recvbuf, writable=True, rank=source)
        received = self.receive_part(part, source, recvtag)
        return Request.of(self.send_beside(received, sent, dest, sendtag))

    @raises_mpi_exceptions
    def Sendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Any = None,
    ) -> None:
        """Send a message and receive one."""
        sent = simple(sendbuf, rank=dest).source()
        part = simple(recvbuf, writable=True, rank=source)
        received = self.receive_part(part, source, recvtag)
        try:
            operation = self.send_bytes(sent, dest, sendtag)
            if operation is not SENT:
                finished(operation)
        except BaseException:
            received.cancel()
            raise
        finished(received, status)

    @raises_mpi_exceptions
    def Isendrecv_replace(
        self,
        buf: Any,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Any:
        """Send a buffer and receive a message into it, in the background."""
        return Request.of(self._replace(buf, dest, sendtag, source, recvtag))

    def _replace(
        self, buf: Any, dest: int, sendtag: int, source: int, recvtag: int
    ) -> Operation:
        only_none = dest == source == PROC_NULL
        part = NOTHING if only_none else simple(buf, writable=True)
        sent = part.source().copy()
        received = self.receive_part(part, source, recvtag)
        return self.send_beside(received, sent, dest, sendtag)

    @raises_mpi_exceptions
    def Sendrecv_replace(
        self,
        buf: Any,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Any = None,
    ) -> None:
        """Send a buffer and receive a message into it."""
        finished(self._replace(buf, dest, sendtag, source, recvtag), status)

    # ---- probes

    def _probing(self, source: int, tag: int, take: bool) -> Probing:
        matching, context = PROCESS.matching, self.state.context
        senders = senders_of(self.state, source, tag)
        return Probing(matching, senders, context, source, tag, is_taking=take)

    def _probe(
        self, source: int, tag: int, status: Any, *, take: bool, forever: bool
    ) -> Any:
        """The message that has come; None for none, if it is not waited for."""
        if source == PROC_NULL:
            if status is not None:
                status.set(*Empty.envelope)
            return MESSAGE_NO_PROC.state
        state, key = self.state, (source, tag, take)
        probe = state.empty_probes.pop(key, None) or self._probing(*key)
        if forever:
            probe.wait()
        elif not probe.is_over():
            note_test([probe])
            state.keep_empty(key, probe)
            return None
        if probe.error is not None:
            raise probe.error
        found = probe.value
        if status is not None:
            status.set(found.source, found.tag, found.nbytes)
        return MessageState(state, found)

    @raises_mpi_exceptions
    def Probe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Any = None
    ) -> bool:
        """Wait for a message without receiving it."""
        self._probe(source, tag, status, take=False, forever=True)
        return True

    @raises_mpi_exceptions
    def Iprobe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Any = None
    ) -> bool:
        """Whether a message has come."""
        found = self._probe(source, tag, status, take=False, forever=False)
        return found is not None

    @raises_mpi_exceptions
    def Mprobe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Any = None
    ) -> Any:
        """Wait for a message, which only its :class:`Message` can receive."""
        return Message.of_state(
            self._probe(source, tag, status, take=True, forever=True)
        )

    @raises_mpi_exceptions
    def Improbe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Any = None
    ) -> Any:
        """A message that has come, as with :meth:`Mprobe`, or None."""
        found = self._probe(source, tag, status, take=True, forever=False)
        return None if found is None else Message.of_state(found)
