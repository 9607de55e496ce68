"""Messages of objects in the background: their ends, and the receives that wait."""

import time
from collections.abc import Callable, Generator
from concurrent import futures
from math import inf
from threading import Thread
from typing import Any

import numpy as np

from collalgo._kernels.comm.point_to_point.mailbox import Mailbox
from collalgo._kernels.comm.point_to_point.message import Message
from collalgo.base.finalizers import Lock
from collalgo.bootstrap.timeouts import seconds_of_wait
from collalgo.comm.awaiting import outcome_of
from collalgo.comm.object_frames import LENGTHS, object_of
from collalgo.comm.point_to_point import errors
from collalgo.engine.dtypes import dtype_code, dtype_text

#: The first and the longest pause between two polls in seconds.
PAUSES = 2e-5, 1e-3


class ObjectMessage:
    """An object sent or received in the background, with the methods of :class:`Work`.

    Attributes
    ----------
    name : str
        The call that began it.
    tag : int
        Its tag.
    source : int or None
        The sender; for a receive from any source, None until a rank has sent.
    timeout : float
        Seconds to wait for the other rank.
    """

    def __init__(self, name: str, source: int | None, tag: int, timeout: float):
        self.name, self.source, self.tag, self.timeout = name, source, tag, timeout
        self.deadline = inf if timeout < 0 else time.monotonic() + timeout
        self.parts: list[Message] = []
        self.frames: list[Any] = []
        self._future: futures.Future[Any] = futures.Future()

    def done(self) -> bool:
        """Whether the object has arrived, or its array may be changed, or it failed."""
        return self._future.done()

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until the message is done: the object that was received, or None.

        Raises
        ------
        TimeoutError
            If it is not done after ``timeout``; it continues.
        """
        seconds = None if timeout is None else seconds_of_wait(timeout)
        try:
            return self._future.result(seconds)
        except futures.CancelledError:
            raise futures.CancelledError(f"{self.name} was cancelled") from None
        except futures.TimeoutError:
            if self._future.done():
                raise
        raise TimeoutError(
            f"{self.name} is not done after {timeout:g} s; it continues in the "
            "background: wait for it again"
        )

    def result(self, timeout: float | None = None) -> Any:
        """The same as :meth:`wait`."""
        return self.wait(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait until the message is done, and return its exception or None."""
        try:
            self.wait(timeout)
        except BaseException as error:
            if not self.done():
                raise
            return error
        return None

    def cancel(self) -> bool:
        """Cancel a receive that no message has reached: whether it was one."""
        return not self._future.done() and self._future.cancel()

    def add_done_callback(self, callback: Callable[["ObjectMessage"], object]) -> None:
        """Call ``callback(message)`` when the message is done, on any thread."""
        self._future.add_done_callback(lambda _: callback(self))

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait in an event loop of asyncio; see :class:`Work`."""
        return outcome_of(self)

    # ---- of the one that carries it out

    def begin(self) -> bool:
        """Begin, so that it is not cancelled any more: False if it was before."""
        return self._future.set_running_or_notify_cancel()

    def fail(self, error: BaseException) -> None:
        """End it by an error."""
        self._future.set_exception(error)

    def is_over(self) -> bool:
        """Whether all of its parts are done; it then ends with their object."""
        if not all(part.done() for part in self.parts):
            return False
        try:
            for part in self.parts:
                part.wait()
            found = object_of(self.frames) if self.frames else None
        except BaseException as error:  # also of classes that unpickle wrongly
            self.fail(error)
        else:
            self._future.set_result(found)
        return True


class ObjectsInBackground:
    """The messages of objects of a rank that are in flight, and their thread.

    The thread ends with the last message. Receives get their messages in the order in
    which they have begun.

    Parameters
    ----------
    mailbox
        The messages of the rank.
    """

    def __init__(self, mailbox: Mailbox):
        self._mailbox = mailbox
        self._lock, self._serves = Lock(), False
        self._waiting: list[ObjectMessage] = []
        self._moving: list[ObjectMessage] = []

    def expects(self, source: int | None, tag: int) -> bool:
        """Whether a receive waits for messages that another would take."""
        with self._lock:
            return any(
                each.tag == tag
                and (None in (source, each.source) or each.source == source)
                for each in self._waiting
            )

    def add(self, message: ObjectMessage) -> None:
        """Follow a message: a receive without parts, or a send of parts."""
        with self._lock:
            (self._moving if message.parts else self._waiting).append(message)
            begins, self._serves = not self._serves, True
        if begins:
            Thread(target=self._serve, name="collalgo objects", daemon=True).start()

    def _serve(self) -> None:
        pause = PAUSES[0]
        while not self._is_idle():
            moved = [self._look(each) for each in [*self._waiting]]
            ended = [each for each in [*self._moving] if each.is_over()]
            with self._lock:
                self._moving = [each for each in self._moving if each not in ended]
            pause = PAUSES[0] if ended or any(moved) else min(1.2 * pause, PAUSES[1])
            time.sleep(pause)

    def _is_idle(self) -> bool:
        """Whether the thread ends, as nothing is in flight."""
        with self._lock:
            self._serves = bool(self._waiting or self._moving)
            return not self._serves

    def _look(self, message: ObjectMessage) -> bool:
        """Look whether a receive begins, has failed or was cancelled."""
        try:
            found = None if message.done() else self._arrived(message)
            if found is None and not message.done():
                return False
            if found is not None and message.begin():
                self._receive(message, *found)
        except BaseException as error:
            if message.begin():
                message.fail(error)
        with self._lock:
            self._waiting.remove(message)
        return True

    def _arrived(self, message: ObjectMessage) -> tuple[int, str, int] | None:
        """The message that has arrived for a receive."""
        wanted = message.source, message.tag
        found = self._mailbox.iprobe(*wanted, message.timeout, message.name)
        if found is None and time.monotonic() > message.deadline:
            rank, source = self._mailbox.rank, message.source
            peers = {source} if source is not None else {*range(self._mailbox.size)}
            others = tuple(peers - {rank} or peers)
            raise errors.probe_error(
                message.name, *wanted, rank, others, message.timeout, None
            )
        return found

    def _receive(
        self, message: ObjectMessage, sender: int, dtype: str, size: int
    ) -> None:
        """Receive the lengths of frames, which are here, and begin to receive these."""
        mailbox, message.source = self._mailbox, sender
        if dtype != dtype_text(dtype_code(LENGTHS)):
            message.fail(errors.no_object(mailbox.rank, sender, dtype, size))
            return
        place = sender, message.tag, message.timeout
        try:
            lengths = mailbox.recv(np.empty(size, LENGTHS), *place, message.name)
            message.frames = [
                np.empty(each, np.uint8) for each in lengths.view(np.int64)
            ]
            message.parts = [mailbox.irecv(each, *place) for each in message.frames]
        except BaseException as error:
            message.fail(error)
            return
        with self._lock:
            self._moving.append(message)
