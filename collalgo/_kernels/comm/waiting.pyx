# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Waits for calls in the background, and the order of calls in the foreground.

A waiter runs the calls that have not begun itself, in their order. So an asynchronous call
with an immediate wait costs little more than a call in the foreground.
"""

from cpython.exc cimport PyErr_Occurred
from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int64_t
from posix.time cimport timespec

from time import monotonic

from collalgo._kernels.comm.clock cimport nanoseconds
from collalgo._kernels.comm.pthreads cimport (
    at,
    pthread_cond_broadcast,
    pthread_cond_timedwait,
    pthread_mutex_lock,
    pthread_mutex_unlock,
    pthread_self,
)
from collalgo._kernels.comm.queue cimport Queue
from collalgo._kernels.comm.task cimport PENDING, Task
from collalgo._kernels.engine.program cimport INTERRUPTED
from collalgo._kernels.engine.transport.transport cimport (
    CALLED,
    CLOSED,
    GO_ON,
    QUIET,
    SIGNALS,
    STOP,
)

from collalgo.comm.failures import in_signal_handler

cdef extern from "Python.h" nogil:
    int check_signals "Py_MakePendingCalls"()  # also what callbacks raise
    int check_interrupts "Py_MakePendingCalls"() except -1

#: The names of the states of a peer that transports return.
PEER_STATES = ("quiet", "called", "left")

cdef double SIGNAL_CHECK = 0.05  # seconds between two checks of a waiter for signals


cdef class WaitableQueue(Queue):
    """A queue whose calls can be waited for; see :class:`Queue`."""

    cdef bint is_over(self):
        """Whether no more calls can be made: after a fork, or after the end."""
        return (<object>self.transport).forked or self.closing

    def peer_state(self, int64_t rank):
        """The state of a rank between the calls with it."""
        cdef int found = QUIET
        if not self.transport.busy and self.try_reserve():
            found = self.transport.peer_state(rank)
            self.release()
        return PEER_STATES[found]

    def has_room(self, int64_t rank, int64_t messages):
        """Whether short messages can be sent to a rank now without a wait."""
        cdef bint found = False
        if not self.transport.busy and self.try_reserve():
            found = self.transport.has_room(rank, messages)
            self.release()
        return found

    def await_peer(self, int64_t rank, double seconds):
        """Wait up to ``seconds`` for a rank to call or to leave: its state."""
        cdef int found = QUIET
        cdef bint interrupted = False
        cdef int64_t until = nanoseconds() + <int64_t>(seconds * 1e9)
        if not self.transport.busy and self.try_reserve():
            self.transport.busy = True  # so that its memory stays
            with nogil:
                found = self.watch_peer(rank, until, &interrupted)
            self.transport.busy = False
            self.release()
            if interrupted:
                reraise()
        return PEER_STATES[found]

    cdef int watch_peer(
        self, int64_t rank, int64_t until, bint *interrupted
    ) noexcept nogil:
        """Poll a rank until it is not quiet, the time is up or a signal raises."""
        cdef int64_t idle = 0
        cdef int status, found = self.transport.peer_state(rank)
        if found == QUIET:
            self.transport.begin_wait()
        while found == QUIET and not interrupted[0] and nanoseconds() < until:
            status = self.transport.pause(&idle)
            if status == STOP:
                return CALLED
            if status == SIGNALS:
                with gil:
                    self.transport.handler = PyThread_get_thread_ident()
                    interrupted[0] = check_signals() != 0
                    self.transport.handler = 0
            found = self.transport.peer_state(rank)
        if idle:
            self.transport.resume()
        return found

    cdef int reserve(self) except -1:
        """Wait for the end of all calls in the background, and block new ones."""
        cdef int status
        while not self.try_reserve():
            self.check_not_in_handler()
            with nogil:
                status = self.help_until(NULL)
                if status != INTERRUPTED:
                    self.sleep_until_end(NULL, SIGNAL_CHECK)
            if status == INTERRUPTED:
                self.raise_interrupted()
            check_interrupts()
        return 0

    cdef bint try_reserve(self) noexcept nogil:
        pthread_mutex_lock(&self.mutex)
        cdef bint possible = not self.running and not self.waiting
        if possible:
            self.running = True
        pthread_mutex_unlock(&self.mutex)
        return possible

    cdef void release(self) noexcept nogil:
        """Unblock calls in the background."""
        pthread_mutex_lock(&self.mutex)
        self.running = False
        pthread_cond_broadcast(&self.ended)
        pthread_mutex_unlock(&self.mutex)
        self.wake()

    cdef bint await_end(self, Task task, double seconds) except -1:
        """Wait for the end of a call, up to ``seconds`` if not negative: whether it has ended."""
        cdef double left = SIGNAL_CHECK, deadline = monotonic() + seconds
        cdef int status = PENDING
        if seconds >= 0:
            self.release_held()
        while task.status == PENDING:
            self.check_not_in_handler()
            if seconds >= 0:
                left = deadline - <double>monotonic()
                if left <= 0:
                    return False
            with nogil:
                if seconds < 0:  # a call that we run could take longer
                    status = self.help_until(<void *>task)
                if status != INTERRUPTED and task.status == PENDING:
                    self.sleep_until_end(<void *>task, min(left, SIGNAL_CHECK))
            if status == INTERRUPTED:
                self.raise_interrupted()
            check_interrupts()
        self.prune()
        return True

    cdef int check_not_in_handler(self) except -1:
        """Check that this thread is not in a call that would wait for itself."""
        cdef unsigned long me = pthread_self()
        if self.transport.handler == me or self.performer == me:
            raise in_signal_handler(self.transport.rank)
        return 0

    cdef bint check_other_thread(self, str call) except -1:
        """Check that the call in the foreground is not that of this thread: True."""
        if self.caller == <unsigned long>PyThread_get_thread_ident():
            raise in_signal_handler(self.transport.rank, call)
        return True

    cdef int help_until(self, void *task) noexcept nogil:
        """Run calls until ``task`` has ended, another thread runs one, or a signal."""
        cdef int status = GO_ON
        while status != PENDING and status != INTERRUPTED:
            if task != NULL and (<Task>task).status != PENDING:
                break
            status = self.perform_next(False)
        self.wake()
        return status

    cdef void sleep_until_end(self, void *task, double seconds) noexcept nogil:
        """Wait up to ``seconds`` for the end of a call, or of any."""
        cdef timespec until = at(nanoseconds() + <int64_t>(seconds * 1e9))
        pthread_mutex_lock(&self.mutex)
        if task == NULL and self.running or (
            task != NULL and (<Task>task).status == PENDING
        ):
            pthread_cond_timedwait(&self.ended, &self.mutex, &until)
        pthread_mutex_unlock(&self.mutex)

    cdef int raise_interrupted(self) except -1:
        """Raise the exception of a signal that interrupted a call run by a waiter."""
        cdef Task task = <Task>self.current
        try:
            if PyErr_Occurred():
                reraise()
        except BaseException as error:
            self.interrupted(task.name, error)
            self.end_with_gil(task, CLOSED)
            self.wake()
            raise
        return 0


cdef int reraise() except? -1:
    """Raise the exception that is set."""
    return -1
