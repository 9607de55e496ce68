"""Messages on their way: sends and receives that have begun."""

import time
from collections.abc import Callable
from threading import Lock
from typing import Any, Protocol

import numpy as np

from collalgo._kernels.comm.work import Work
from collalgo._kernels.engine.pinning import pinned
from collalgo.engine.arrays import as_array, check_apart, check_writeable
from collalgo.engine.devices.arrays import Shadow, for_another_thread
from collalgo.engine.reduction import DTYPES, dtype_name


class Progress(Protocol):
    """What a message needs of those that make progress with it."""

    def poll(self) -> bool:
        """Read what other ranks have written: whether they had."""

    def wait(self, message: "Message", until: float | None) -> bool:
        """Wait until the other rank has made its call: False if the time is up."""

    def tell(
        self, message: "Message", callbacks: list[Callable[["Message"], object]]
    ) -> None:
        """Call back soon, because the message is done."""


class Message:
    """A message sent or received in the background, with the methods of :class:`Work`.

    Parameters
    ----------
    name
        The call that began it.
    buf
        Its array, as the user has passed it.
    tag
        Its tag.
    source
        The sender; None for a receive from any rank.
    timeout
        Seconds to wait for the other rank.
    progress
        What makes progress with it.

    Attributes
    ----------
    source : int or None
        The sender; for a receive from any source, None until a rank has sent.
    array : ndarray
        The array as NumPy sees it.
    dtype : int
        Its dtype, as its place in the list of dtypes.
    number : int
        Its number among the messages from the sender to the receiver; 0 if unknown.
    deadline : float
        The time at which it is given up.
    is_copy : bool
        Whether it is a copy of what its caller sent, whose call has returned.
    """

    def __init__(
        self,
        name: str,
        buf: Any,
        tag: int,
        source: int | None,
        timeout: float,
        progress: Progress,
    ):
        self.name, self.tag, self.source = name, tag, source
        self.timeout, self.deadline = timeout, time.monotonic() + timeout
        self.number = self.ticket = 0
        self.is_copy = False
        self._buf, self._progress = buf, progress
        self.array = as_array(for_another_thread(buf, name), name)
        self.dtype = _code(self.array, name)
        self._pins: Any = pinned(self.array, None)
        self._error: BaseException | None = None
        self._work: Work | None = None
        self._over = False
        self._callbacks: list[Callable[[Message], object]] = []
        self._lock = Lock()

    @property
    def on_device(self) -> bool:
        return isinstance(self.array, Shadow)

    @property
    def waits(self) -> bool:
        """Whether the other rank has still to make its call."""
        return not self._over and self._work is None

    def check_target(self) -> None:
        """Check that its array can take what is received."""
        check_writeable(self.array, "buf", self.name)
        check_apart(self.array, "buf", self.name)

    # ---- what becomes of it

    def end(self, error: BaseException | None = None) -> None:
        """It was transferred, or has failed."""
        with self._lock:
            if self._over:
                return
            self._error, self._over, self._pins = error, True, None
            self._progress.tell(self, self._callbacks)
            self._callbacks = []

    def follow(self, work: Work) -> None:
        """It ends with a call in the background."""
        with self._lock:
            self._work, self._pins = work, None
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            self.add_done_callback(callback)

    def detach(self) -> "Message":
        """A message with a copy of the array, in place of this one, which is done."""
        array = np.array(self.array, order="C")
        name, tag, timeout = self.name, self.tag, self.timeout
        copied = Message(name, array, tag, self.source, timeout, self._progress)
        copied.is_copy = True
        self.end()
        return copied

    # ---- as users see it

    def done(self) -> bool:
        """Whether the message was transferred, or has failed."""
        if self.waits:
            self._progress.poll()
        return self._over or (self._work is not None and self._work.done())

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until the message is done; see :meth:`Work.wait`. Returns the array."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._progress.wait(self, deadline):
            raise TimeoutError(
                f"{self.name} is not done after {timeout:g} s; it goes on in the "
                "background, and can be waited for again"
            )
        if self._work is not None:
            self._work.wait(_left(deadline))
        if self._error is not None:
            raise self._error
        return self._buf

    def wait_stream(self, stream: Any = None) -> Any:
        """Make a stream of a device wait for the message; see :class:`Work`."""
        self._progress.wait(self, None)
        if self._work is None:
            return self.wait()
        self._work.wait_stream(stream)
        return self._buf

    def result(self, timeout: float | None = None) -> Any:
        """The same as :meth:`wait`."""
        return self.wait(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait until the message is done, and return its exception or None."""
        try:
            self.wait(timeout)
        except BaseException as error:
            known = self._work.exception(0) if self._work else self._error
            if error is not known:
                raise
            return error
        return None

    def add_done_callback(self, callback: Callable[["Message"], object]) -> None:
        """Call ``callback(message)`` when the message is done, on any thread."""
        with self._lock:
            waits = self.waits
            if waits:
                self._callbacks.append(callback)
        if self._over:
            callback(self)
        elif not waits and self._work is not None:
            self._work.add_done_callback(lambda _: callback(self))


def _code(array: np.ndarray[Any, Any], name: str) -> int:
    try:
        return DTYPES.index(dtype_name(array.dtype))
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0)
