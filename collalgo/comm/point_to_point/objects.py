"""Messages of objects of Python: their lengths, then their frames."""

from typing import Any

import numpy as np

from collalgo.comm.object_frames import LENGTHS, frames_of, object_of
from collalgo.comm.point_to_point.calls import Messages
from collalgo.engine.dtypes import dtype_code, dtype_text


class ObjectMessages(Messages):
    """Point-to-point messages, also of objects, which move as pickles."""

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
        frames = frames_of(obj)
        lengths = np.array([len(frame) for frame in frames], np.int64).view(LENGTHS)
        for message in (lengths, *frames):
            self._mailbox.send(message, to, tag, waiting, "send_object")

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

    def _no_object(self, sender: int, dtype: str, size: int) -> Exception:
        from collalgo.comm.point_to_point import errors  # at the first message

        return errors.no_object(self._mailbox.rank, sender, dtype, size)
