"""Messages of objects of Python: their lengths, then their frames."""

from typing import Any

import numpy as np

from collalgo.comm.object_frames import frames_of, object_of
from collalgo.comm.point_to_point.calls import Messages


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
        frames = frames_of(obj)
        lengths = np.array([len(frame) for frame in frames], np.int64)
        for message in (lengths, *frames):
            self.send(message, to, tag, timeout=timeout)

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
        """
        envelope = self.probe(source, tag, timeout=timeout)
        lengths = np.empty(envelope.size, np.int64)
        self.recv(lengths, envelope.source, tag, timeout=timeout)
        frames = [np.empty(length, np.uint8) for length in lengths]
        for frame in frames:
            self.recv(frame, envelope.source, tag, timeout=timeout)
        return object_of(frames)
