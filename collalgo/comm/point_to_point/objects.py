"""Messages of objects of Python: their lengths, then their frames."""

from typing import TYPE_CHECKING, Any

import numpy as np

from collalgo.base.integers import INT64_MAX, integer
from collalgo.comm.object_frames import LENGTHS, frames_of, object_of
from collalgo.comm.point_to_point.calls import Messages
from collalgo.engine.dtypes import dtype_code, dtype_text

if TYPE_CHECKING:
    from collalgo.comm.point_to_point.object_messages import (
        ObjectMessage,
        ObjectsInBackground,
    )


class ObjectMessages(Messages):
    """Point-to-point messages, also of objects, which move as pickles."""

    _objects: "ObjectsInBackground | None" = None

    def send_object(
        self,
        obj: Any,
        to: int,
        tag: int = 0,
        *,
        timeout: float | None = None,
    ) -> None:
        """Send an object that can be pickled to one rank; see :meth:`send`."""
        waiting = self._runner.waiting(timeout)
        for message in parts_of(obj):
            self._mailbox.send(message, to, tag, waiting, "send_object")

    def send_object_async(self, obj: Any, to: int, tag: int = 0) -> "ObjectMessage":
        """Send an object in the background; see :meth:`send_object`.

        The pickle is made at once, but arrays of 64 KiB or more in the object are read
        until the message is done: do not change them before.
        """
        message = self._message("send_object_async", self._mailbox.rank, tag)
        seconds = self._runner.seconds
        message.parts = [
            self._mailbox.isend(part, to, tag, seconds) for part in parts_of(obj)
        ]
        message.begin()  # so that it is not cancelled
        self._in_background().add(message)
        return message

    def recv_object(
        self,
        source: int | None,
        tag: int = 0,
        *,
        timeout: float | None = None,
    ) -> Any:
        """Receive an object that a rank sends by :meth:`send_object`.

        It is unpickled: the sender must be trusted. With ``source`` None, receive from
        the first sender.

        Raises
        ------
        MismatchError
            If the next message is an array, which stays to be received by :meth:`recv`.
        """
        waiting = self._runner.waiting(timeout)
        if self._objects is not None and self._objects.expects(source, tag):
            return self.recv_object_async(source, tag, timeout=timeout).wait()
        name = "recv_object"
        sender, dtype, size = self._mailbox.probe(source, tag, waiting, name)
        if dtype != dtype_text(dtype_code(LENGTHS)):
            raise self._no_object(sender, dtype, size)
        lengths = np.empty(size, LENGTHS)
        self._mailbox.recv(lengths, sender, tag, waiting, name)
        frames = [np.empty(length, np.uint8) for length in lengths.view(np.int64)]
        for frame in frames:
            self._mailbox.recv(frame, sender, tag, waiting, name)
        return object_of(frames)

    def recv_object_async(
        self,
        source: int | None,
        tag: int = 0,
        *,
        timeout: float | None = None,
    ) -> "ObjectMessage":
        """Receive an object in the background; see :meth:`recv_object`.

        Receives get their messages in the order in which they have begun. The object is
        unpickled by another thread.
        """
        name = "recv_object_async"
        if source is not None:
            source = integer(source, "source", name, 0, self._mailbox.size - 1)
        tag = integer(tag, "tag", name, 0, INT64_MAX)
        message = self._message(name, source, tag, timeout)
        self._in_background().add(message)
        return message

    def _message(
        self, name: str, source: int | None, tag: int, timeout: float | None = None
    ) -> "ObjectMessage":
        """A message of an object in the background."""
        from collalgo.comm.point_to_point.object_messages import ObjectMessage

        self._runner.check_open(name)
        self._runner.check_background(name)
        return ObjectMessage(name, source, tag, self._runner.waiting(timeout))

    def _in_background(self) -> "ObjectsInBackground":
        """The messages of objects in flight, from the first one."""
        from collalgo.comm.point_to_point.object_messages import ObjectsInBackground

        if self._objects is None:
            self._objects = ObjectsInBackground(self._mailbox)
        return self._objects

    def _no_object(self, sender: int, dtype: str, size: int) -> Exception:
        from collalgo.comm.point_to_point import errors  # at the first message

        return errors.no_object(self._mailbox.rank, sender, dtype, size)


def parts_of(obj: Any) -> list[Any]:
    """The messages that carry an object: the lengths of its frames, then these."""
    frames = frames_of(obj)
    lengths = np.array([len(frame) for frame in frames], np.int64)
    return [lengths.view(LENGTHS), *frames]
