# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""Calls in the background, in their order, and how to wait for them.

Whoever waits for a call lends a hand: what nobody has begun is run by the waiter itself,
in the same order. So a call that is waited for at once costs hardly more than one in the
foreground.
"""

from cpython.exc cimport PyErr_CheckSignals, PyErr_Occurred
from libc.stdint cimport int64_t
from posix.time cimport timespec

import sys
from collections import deque
from time import monotonic

from collalgo._kernels.engine.engine cimport INTERRUPTED
from collalgo._kernels.comm.pthreads cimport (
    at,
    condition,
    pthread_cond_broadcast,
    pthread_cond_destroy,
    pthread_cond_timedwait,
    pthread_getcpuclockid,
    pthread_mutex_destroy,
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_unlock,
    pthread_self,
)
from collalgo._kernels.comm.recorder cimport CallSite, Recorder, nanoseconds
from collalgo._kernels.engine.transport.transport cimport (
    CLOSED,
    GO_ON,
    NOBODY,
    QUIET,
    Transport,
)

#: By the numbers that transports give them.
OUTLOOKS = ("quiet", "called", "left")

cdef double DOZE = 0.05  # seconds after which a waiter looks whether there are signals


cdef class Task:
    """A call as the queue knows it."""

    def __init__(self, str name):
        self.name = name
        self.site = CallSite()
        self.callbacks = []

    cdef bint is_short(self) noexcept:
        """Whether the call hardly takes longer than it takes to wake a thread."""
        return False

    cdef int begin(self) noexcept:
        """See to what needs the GIL before the call is made: GO_ON, or CLOSED."""
        return GO_ON

    cdef int settle(self, int status) except -100:
        """See to what needs the GIL when the call has ended: its status."""
        return status

    cdef void unpin(self) noexcept:
        """Let the arrays be resized again, now that the call has ended."""


cdef class Queue:
    """Calls in the background that have not ended.

    One at a time is under way, and none while the queue is reserved.

    Parameters
    ----------
    transport : Transport
        This rank's end.
    interrupted : callable
        Called with the name of a call and the exception that has come up in it.
    recorder : Recorder
        Is told of all calls.
    """

    def __cinit__(self):
        pthread_mutex_init(&self.mutex, NULL)
        condition(&self.ended)

    def __init__(self, Transport transport, interrupted, Recorder recorder):
        self.transport, self.interrupted = transport, interrupted
        self.recorder = recorder
        self.kept = deque()

    def __dealloc__(self):
        pthread_cond_destroy(&self.ended)
        pthread_mutex_destroy(&self.mutex)

    # ---- what a thread is told; the mutex is mine where nothing else is said

    cdef void arrive(self, bint short) noexcept nogil:
        """A call has come to the end of the queue."""

    cdef void hasten(self) noexcept nogil:
        """The calls in the queue are to be run at once."""

    cdef void rouse(self) noexcept nogil:
        """Who was at work has left, and there may be calls; the mutex is not mine."""

    cdef void let_go(self) noexcept nogil:
        """No calls are to be held any more; the mutex is not mine."""

    # ---- the calls

    cdef int append(self, Task task) except -1:
        """Put a call at the end of the queue."""
        cdef bint short = task.is_short()
        self.prune()
        self.kept.append(task)
        pthread_getcpuclockid(pthread_self(), &task.caller)
        task.number = self.recorder.enter(task.program, task.site)
        pthread_mutex_lock(&self.mutex)
        if self.waiting == 0:
            self.first = <void *>task
        else:
            self.last.next = task
        self.last = task
        self.waiting += 1
        self.arrive(short)
        pthread_mutex_unlock(&self.mutex)
        return 0

    cdef int perform_next(self, bint gives_way) noexcept nogil:
        """Run the next call of the queue: its status, or PENDING if there is none.

        The thread gives way to the caller, as long as that computes meanwhile.
        """
        cdef int status = CLOSED
        cdef void *task
        pthread_mutex_lock(&self.mutex)
        if self.running or not self.waiting:
            pthread_mutex_unlock(&self.mutex)
            return PENDING
        task = self.current = self.first
        self.first = <void *>(<Task>task).next
        self.waiting -= 1
        self.running = True
        pthread_mutex_unlock(&self.mutex)
        if not self.closing:
            status = self.perform(task, gives_way)
        self.recorder.end((<Task>task).number, status)
        if status == INTERRUPTED:
            return status  # which ends when its exception has been told
        if status != GO_ON or not self.end(task, status, False):
            with gil:
                self.end_with_gil(<Task>task, status)
        return status

    cdef int perform(self, void *task, bint gives_way) noexcept nogil:
        """Run a call whose turn has come: its status.

        What it packs is packed now, as the calls before may have changed it.
        """
        cdef int status = GO_ON
        self.recorder.begin((<Task>task).number)
        if (<Task>task).packs:
            with gil:
                status = (<Task>task).begin()
        if status != GO_ON:
            return status
        if self.transport.log != NULL:
            self.transport.log.call = (<Task>task).number
        self.transport.give_way((<Task>task).caller if gives_way else NOBODY)
        status = (<Task>task).program.run_without_gil(
            self.transport, &(<Task>task).arrays, (<Task>task).waiting
        )
        self.transport.give_way(NOBODY)
        return status

    cdef bint end(self, void *task, int status, bint with_gil) noexcept nogil:
        """Let a call have ended, unless somebody has to be told who needs the GIL."""
        pthread_mutex_lock(&self.mutex)
        cdef bint possible = with_gil or not (
            (<Task>task).settles or (<Task>task).watched
        )
        if possible:
            (<Task>task).status = status
            self.running = False
            pthread_cond_broadcast(&self.ended)
        pthread_mutex_unlock(&self.mutex)
        return possible

    cdef void end_with_gil(self, Task task, int status):
        status = task.settle(status)
        task.unpin()
        self.end(<void *>task, status, True)
        callbacks, task.callbacks = task.callbacks, []
        task.watched = False
        for callback in callbacks:
            try:
                callback(task)
            except BaseException:  # like those of other futures
                sys.excepthook(*sys.exc_info())

    cdef int prune(self) except -1:
        """Let go what has ended.

        Nothing is freed before all is in order: that may let other threads run.
        """
        cdef Task task
        gone = []
        while self.kept and (<Task>self.kept[0]).status != PENDING:
            task = self.kept.popleft()
            task.next = None
            gone.append(task)
        if not self.kept:
            self.last = None
        for task in gone:
            task.unpin()
        return 0

    cdef bint watch(self, Task task, callback) except -1:
        """Have a callback told when a call has ended; False if that is so already."""
        pthread_mutex_lock(&self.mutex)
        cdef bint pending = task.status == PENDING
        if pending:
            task.watched = True
            task.callbacks.append(callback)
            self.hasten()  # as nobody may wait for it
        pthread_mutex_unlock(&self.mutex)
        return pending

    cdef bint is_over(self):
        """Whether no more calls can be made: in a child, or after the end."""
        return (<object>self.transport).forked or self.closing

    def outlook(self, int64_t rank):
        """What is to be expected of a rank beside what is under way with it."""
        cdef int found = QUIET
        if not self.transport.busy and self.try_reserve():
            found = self.transport.outlook(rank)
            self.release()
        return OUTLOOKS[found]

    # ---- turns

    cdef int reserve(self) except -1:
        """Wait until all calls in the background have ended, and let none begin."""
        cdef int status
        while not self.try_reserve():
            with nogil:
                status = self.help_until(NULL)
                if status != INTERRUPTED:
                    self.doze(NULL, DOZE)
            if status == INTERRUPTED:
                self.raise_interrupted()
            PyErr_CheckSignals()
        return 0

    cdef bint try_reserve(self) noexcept nogil:
        pthread_mutex_lock(&self.mutex)
        cdef bint possible = not self.running and not self.waiting
        if possible:
            self.running = True
        pthread_mutex_unlock(&self.mutex)
        return possible

    cdef void release(self) noexcept nogil:
        """Let calls in the background begin again."""
        pthread_mutex_lock(&self.mutex)
        self.running = False
        pthread_cond_broadcast(&self.ended)
        pthread_mutex_unlock(&self.mutex)
        self.rouse()

    # ---- waiting

    cdef bint await_end(self, Task task, double seconds) except -1:
        """Wait for the end of a call, for ever or so many seconds: whether it came."""
        cdef double left = DOZE, deadline = monotonic() + seconds
        cdef int status = PENDING
        if seconds >= 0:
            self.let_go()
        while task.status == PENDING:
            if seconds >= 0:
                left = deadline - <double>monotonic()
                if left <= 0:
                    return False
            with nogil:
                if seconds < 0:  # else it could take longer
                    status = self.help_until(<void *>task)
                if status != INTERRUPTED and task.status == PENDING:
                    self.doze(<void *>task, min(left, DOZE))
            if status == INTERRUPTED:
                self.raise_interrupted()
            PyErr_CheckSignals()
        self.prune()
        return True

    cdef int help_until(self, void *task) noexcept nogil:
        """Run calls until one has ended or another thread runs one, or interrupted."""
        cdef int status = GO_ON
        while status != PENDING and status != INTERRUPTED:
            if task != NULL and (<Task>task).status != PENDING:
                break
            status = self.perform_next(False)
        self.rouse()  # who was at work has left
        return status

    cdef void doze(self, void *task, double seconds) noexcept nogil:
        """Wait a little for the end of a call, or of any."""
        cdef timespec until = at(nanoseconds() + <int64_t>(seconds * 1e9))
        pthread_mutex_lock(&self.mutex)
        if task == NULL and self.running or (
            task != NULL and (<Task>task).status == PENDING
        ):
            pthread_cond_timedwait(&self.ended, &self.mutex, &until)
        pthread_mutex_unlock(&self.mutex)

    cdef int raise_interrupted(self) except -1:
        """Raise what a signal has brought about in a call that I ran for the thread."""
        cdef Task task = <Task>self.current
        try:
            if PyErr_Occurred():
                reraise()
        except BaseException as error:
            self.interrupted(task.name, error)
            self.end_with_gil(task, CLOSED)
            self.rouse()
            raise
        return 0


cdef int reraise() except? -1:
    """Let the exception that is set be seen by who calls."""
    return -1
