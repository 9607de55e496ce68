# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Calls in the background: a queue that runs them in order, one at a time."""

from collections import deque

from collalgo._kernels.comm.pthreads cimport (
    condition,
    pthread_cond_broadcast,
    pthread_cond_destroy,
    pthread_getcpuclockid,
    pthread_mutex_destroy,
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_unlock,
    pthread_self,
)
from collalgo._kernels.comm.recorder cimport Recorder
from collalgo._kernels.comm.task cimport PENDING, Task
from collalgo._kernels.engine.program cimport INTERRUPTED
from collalgo._kernels.engine.transport.transport cimport (
    CLOSED,
    GO_ON,
    NO_CALLER,
    Transport,
)

from collalgo._kernels.comm.done_callbacks import run_callbacks


cdef class Queue:
    """Calls in the background that have not ended.

    One call runs at a time, and none while the queue is reserved.

    Parameters
    ----------
    transport : Transport
        This rank's end.
    interrupted : callable
        Called with the name of a call and the exception that interrupted it.
    recorder : Recorder
        Records all calls.
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

    # ---- signals to the thread; the caller holds the mutex unless noted

    cdef void arrive(self, bint short) noexcept nogil:
        """A call was appended."""

    cdef void run_soon(self) noexcept nogil:
        """Run the calls in the queue at once."""

    cdef void wake(self) noexcept nogil:
        """No call runs, and some may wait; the caller does not hold the mutex."""

    cdef void release_held(self) noexcept nogil:
        """Stop holding calls; the caller does not hold the mutex."""

    @property
    def idle(self):
        """Whether all calls have ended."""
        return not (self.waiting or self.running)

    # ---- the calls

    cdef int append(self, Task task) except -1:
        """Put a call at the end of the queue."""
        cdef bint short = task.is_short()
        self.prune()
        self.kept.append(task)
        pthread_getcpuclockid(pthread_self(), &task.caller)
        self.recorder.complete()
        task.sequence = self.recorder.enter(task.program, task.site)
        task.number = self.recorder.at(task.sequence).number
        self.recorder.calls += task.continues
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

    cdef int perform_next(self, bint yields) noexcept nogil:
        """Run the next call of the queue: its status; PENDING without one.

        With ``yields`` it yields the core while the thread of the caller computes.
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
        self.running, self.performer = True, pthread_self()
        pthread_mutex_unlock(&self.mutex)
        if not self.closing:
            status = self.perform(task, yields)
        if status == INTERRUPTED:
            return status  # raise_interrupted() ends the call
        if status != GO_ON or not self.end(task, status, False):
            with gil:
                self.end_with_gil(<Task>task, status)
        return status

    cdef int perform(self, void *task, bint yields) noexcept nogil:
        """Run a call: its status.

        Its arrays are packed now, because earlier calls may have changed them.
        """
        cdef int status = GO_ON
        self.recorder.begin((<Task>task).sequence)
        if (<Task>task).packs:
            with gil:
                status = (<Task>task).begin()
        if status != GO_ON:
            return status
        if self.transport.log != NULL:
            self.transport.log.call = (<Task>task).sequence
        self.transport.yield_core((<Task>task).caller if yields else NO_CALLER)
        status = (<Task>task).program.run_without_gil(
            self.transport, &(<Task>task).arrays, (<Task>task).waiting
        )
        self.transport.yield_core(NO_CALLER)
        if status != GO_ON and self.transport.in_use:
            with gil:
                (<Task>task).keep_arrays()
        return status

    cdef bint end(self, void *task, int status, bint with_gil) noexcept nogil:
        """Mark a call as ended, unless that needs the GIL: whether it is marked."""
        pthread_mutex_lock(&self.mutex)
        cdef bint possible = with_gil or not (
            (<Task>task).settles or (<Task>task).watched
        )
        if possible:
            self.recorder.end((<Task>task).sequence, status)
            (<Task>task).status = status
            self.running, self.performer = False, 0
            pthread_cond_broadcast(&self.ended)
        pthread_mutex_unlock(&self.mutex)
        return possible

    cdef void end_with_gil(self, Task task, int status):
        status = task.settle(status)
        task.unpin()
        self.end(<void *>task, status, True)
        callbacks, task.callbacks = task.callbacks, []
        task.watched = False
        run_callbacks(callbacks, task)

    cdef int prune(self) except -1:
        """Release the calls that have ended.

        Freeing may run other threads, so it comes after the queue is consistent.
        """
        cdef Task task
        ended = []
        while self.kept and (<Task>self.kept[0]).status != PENDING:
            task = self.kept.popleft()
            task.next = None
            ended.append(task)
        if not self.kept:
            self.last = None
        for task in ended:
            task.unpin()
        return 0

    cdef bint watch(self, Task task, callback) except -1:
        """Add a callback for the end of a call; False if the call has ended."""
        pthread_mutex_lock(&self.mutex)
        cdef bint pending = task.status == PENDING
        if pending:
            task.watched = True
            task.callbacks.append(callback)
            self.run_soon()  # since no thread may wait for it
        pthread_mutex_unlock(&self.mutex)
        return pending
