# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Calls in the background for their callers: wait for a call, take its result."""

from time import monotonic, sleep

from collalgo._kernels.comm.prepared cimport PreparedCall
from collalgo._kernels.comm.task cimport PENDING

from collalgo.bootstrap.timeouts import seconds_of_wait
from collalgo.comm.awaiting import outcome_of
from collalgo._kernels.comm.done_callbacks import run_callbacks

cdef double LOOK = 1e-4  # seconds between two polls of a stream


cdef class Work(PreparedCall):
    """A call in the background, as returned by calls whose names end in ``_async``.

    Its arrays must not be touched until it is done.

    Attributes
    ----------
    name : str
        The name of the call.
    """

    def __repr__(self):
        state = (
            "under way" if self.status == PENDING
            else "done" if self.failure is None else f"failed: {self.failure}"
        )
        return f"<Work {self.name} {state}>"

    def done(self):
        """Whether the call has ended, with a result or an error."""
        if self.status == PENDING:
            self.progress.release_held()  # a caller that polls never waits
        return self.status != PENDING and (
            self.pending_call is None or self.failure is not None or self.pending_call.done
        )

    def wait(self, timeout=None):
        """Wait until the call has ended.

        Parameters
        ----------
        timeout
            Seconds to wait; by default until the call itself has ended or timed out. With
            0 it does not wait.

        Returns
        -------
        array or None
            What the call returns in the foreground.

        Raises
        ------
        TimeoutError
            If it has not ended after ``timeout``; it goes on.
        CollalgoError
            As in the foreground, with a note that names the place of the call.
        """
        cdef double seconds = -1 if timeout is None else seconds_of_wait(timeout)
        cdef double deadline = <double>monotonic() + seconds
        cdef bint over = self.await_end(seconds)
        if over and self.failure is None and self.pending_call is not None:
            over = self.await_device(seconds < 0, deadline)
        if not over:
            raise TimeoutError(
                f"{self.name} is not done after {timeout:g} s; it continues in the "
                "background: wait for it again"
            )
        return self.outcome()

    cdef bint await_end(self, double seconds) except -1:
        """Wait for the end of the call, up to ``seconds`` if not negative: whether it has ended."""
        if self.status != PENDING:
            return True
        self.check_open()
        return self.progress.await_end(self, seconds)

    cdef bint await_device(self, bint forever, double deadline) except -1:
        """Wait for the stream of the device: whether the call ended in time."""
        while not forever and not self.pending_call.done:
            if <double>monotonic() >= deadline:
                return False
            sleep(LOOK)
        self.pending_call.synchronize()
        return True

    def wait_stream(self, stream=None):
        """Make a stream of a device wait for the end of the call, but not the host.

        The host continues as soon as all ranks have made the call. For arrays of the
        host this is the same as :meth:`wait`.

        Parameters
        ----------
        stream
            Of CuPy, of torch, or as a number; by default the current one.

        Returns
        -------
        array or None
            What the call returns in the foreground, for use on that stream.

        Raises
        ------
        CollalgoError
            As in the foreground, with a note that names the place of the call.
        """
        self.await_end(-1)
        if self.failure is None and self.pending_call is not None:
            self.pending_call.hold(stream)
        return self.outcome()

    def result(self, timeout=None):
        """The same as :meth:`wait`, by the name that futures use."""
        return self.wait(timeout)

    def __await__(self):
        """Wait in an event loop of asyncio, as ``await comm.allreduce_async(x)``."""
        return outcome_of(self)

    def exception(self, timeout=None):
        """Wait until the call has ended: the exception that it raised, or None."""
        try:
            self.wait(timeout)
        except BaseException as error:
            if error is not self.failure:
                raise
        return self.failure

    def add_done_callback(self, callback):
        """Call ``callback(work)`` at the end of the call, from any thread.

        An error of the callback is reported, and not raised; KeyboardInterrupt and
        SystemExit are raised in the main thread, as Ctrl-C is.
        """
        if not self.progress.watch(self, callback):
            run_callbacks([callback], self)

    cdef object outcome(self):
        self.unpin()
        if self.failure is not None:
            self.progress.is_known = True
            raise self.failure
        return self.value
