"""Streams of a stand-in for a device, which are threads, and places on them."""

import threading
from queue import SimpleQueue

from tests.support.fake_device_memory import add_stream, remove_stream


class Stream:
    """A thread that does in order what is put on its queue, until its end.

    It knows nothing of the stand-in that it is of, which can therefore be dropped.
    """

    def __init__(self):
        self.queue, self.failures = SimpleQueue(), []
        add_stream(self)
        threading.Thread(target=self._work, daemon=True).start()

    def end(self):
        """Let the thread end after all that has been put."""
        self.queue.put(None)

    def _work(self):
        try:
            while self._next():
                pass
        except BaseException as error:
            self.failures.append(error)
        finally:
            remove_stream(self)

    def _next(self):
        """Do the next operation, and keep it no longer; whether there was one."""
        operation = self.queue.get()
        if operation is None:
            return False
        operation()
        return True


class Mark:
    """A place on a stream."""

    def __init__(self, runtime):
        self.runtime, self.event = runtime, threading.Event()

    @property
    def done(self):
        return self.event.is_set()

    def synchronize(self):
        while not self.event.wait(0.01):
            if self.runtime.failures:
                raise self.runtime.failures[0]
