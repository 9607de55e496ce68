"""Messages sent or received in the background."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from collalgo._kernels.comm.work import Work


class Message:
    """A message sent or received in the background, with the methods of :class:`Work`.

    Attributes
    ----------
    source : int or None
        The sender; for a receive from any source, None until a rank has sent.
    """

    def __init__(self, name: str, buf: Any, source: int | None):
        self.name = name
        self.source = source
        self._buf = buf
        self._begun: Future[Work] = Future()

    def begin(self, make: Callable[[], Work]) -> None:
        """Start the call of the message."""
        try:
            self._begun.set_result(make())
        except BaseException as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        self._begun.set_exception(error)

    def done(self) -> bool:
        """Whether the message was transferred, or has failed."""
        if not self._begun.done():
            return False
        return self._begun.exception() is not None or self._begun.result().done()

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until the message is done; see :meth:`Work.wait`. Returns the array."""
        self._begun.result(timeout).wait(timeout)
        return self._buf

    def wait_stream(self, stream: Any = None) -> Any:
        """Make a stream of a device wait for the message; see :class:`Work`."""
        self._begun.result().wait_stream(stream)
        return self._buf

    def result(self, timeout: float | None = None) -> Any:
        """The same as :meth:`wait`."""
        return self.wait(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait until the message is done, and return its exception or None."""
        failed = self._begun.exception(timeout)
        return failed or self._begun.result().exception(timeout)

    def add_done_callback(self, callback: Callable[["Message"], object]) -> None:
        """Call ``callback(message)`` when the message is done, on any thread."""

        def begun(future: Future[Work]) -> None:
            if future.exception() is not None:
                callback(self)
            else:
                future.result().add_done_callback(lambda _: callback(self))

        self._begun.add_done_callback(begun)
