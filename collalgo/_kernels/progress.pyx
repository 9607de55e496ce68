# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""Calls in the background: a queue of them, and the thread that runs it without the GIL.

Whoever waits for a call lends a hand: what the thread has not begun is run by the waiter
itself, in the same order. So a call that is waited for at once costs hardly more than one
in the foreground, and the thread runs what would otherwise lie about. Short calls it
leaves to the waiter for a moment: to wake a thread takes longer than they do.
"""

cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals, PyErr_Occurred
from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, timespec

import sys
from collections import deque
from threading import Thread, current_thread
from time import monotonic, sleep

from collalgo._kernels.engine cimport Program
from collalgo._kernels.recorder cimport CallSite, Recorder, nanoseconds
from collalgo._kernels.transport cimport CLOSED, GO_ON, Transport

from collalgo._kernels.engine import RUN_NEEDS_PACKING
from collalgo.arrays import packed
from collalgo.connection import seconds as seconds_of
from collalgo.errors import CollalgoError, CommunicatorClosed

cnp.import_array()

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_condattr_t:
        pass
    int pthread_mutex_init(pthread_mutex_t *mutex, void *attributes)
    int pthread_mutex_destroy(pthread_mutex_t *mutex)
    int pthread_mutex_lock(pthread_mutex_t *mutex)
    int pthread_mutex_unlock(pthread_mutex_t *mutex)
    int pthread_condattr_init(pthread_condattr_t *attributes)
    int pthread_condattr_setclock(pthread_condattr_t *attributes, int clock)
    int pthread_cond_init(pthread_cond_t *cond, pthread_condattr_t *attributes)
    int pthread_cond_destroy(pthread_cond_t *cond)
    int pthread_cond_signal(pthread_cond_t *cond)
    int pthread_cond_broadcast(pthread_cond_t *cond)
    int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
    int pthread_cond_timedwait(
        pthread_cond_t *cond, pthread_mutex_t *mutex, const timespec *until
    )

cdef enum:
    PENDING = -50  # the status of a call that has not ended
    INTERRUPTED = -100  # by a signal, whose exception is set
    NEEDS_PACKING = -2

cdef double DOZE = 0.05  # seconds after which a waiter looks whether there are signals
cdef double LOOK = 1e-4  # seconds after which a waiter looks at a stream
cdef int64_t TIDY = 100_000_000  # ns without work after which arrays are let go
cdef int64_t SHORT = 1 << 17  # bytes of a call that is left to its waiter for a moment
cdef int64_t MOMENT = 100_000  # ns, after which the thread may run it
cdef int64_t LINGER = 10_000_000  # ns after a call in which the thread looks by itself
cdef int64_t SELDOM = 1_000_000  # ns between two looks, if all that comes is waited for

assert NEEDS_PACKING == RUN_NEEDS_PACKING


cdef timespec at(int64_t nanosecond) noexcept nogil:
    """A time as threads wait for it."""
    cdef timespec time
    time.tv_sec = nanosecond // 1_000_000_000
    time.tv_nsec = nanosecond % 1_000_000_000
    return time


cdef class Work:
    """A call in the background, as the calls whose names end in ``_async`` give it.

    Its arrays must not be touched until it is done.

    Attributes
    ----------
    name : str
        Of the call.
    """

    def __init__(self, owner, str name, Progress progress, cope):
        self.owner, self.name, self.progress, self.cope = owner, name, progress, cope
        self.site = CallSite()
        self.status = PENDING
        self.callbacks = []

    @property
    def place(self):
        """The file and the line of the call."""
        return self.site.place

    def __repr__(self):
        state = (
            "under way" if self.status == PENDING
            else "done" if self.failure is None else f"failed: {self.failure}"
        )
        return f"<Work {self.name} {state}>"

    def done(self):
        """Whether the call has ended, well or not."""
        return self.status != PENDING and (
            self.underway is None or self.failure is not None or self.underway.done
        )

    def wait(self, timeout=None):
        """Wait until the call has ended.

        Parameters
        ----------
        timeout
            Seconds to wait; by default until the call itself has ended or timed out.

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
        cdef double seconds = -1 if timeout is None else seconds_of(timeout)
        cdef double deadline = <double>monotonic() + seconds
        cdef bint over = self.status != PENDING or self.progress.await_end(
            self, seconds
        )
        if over and self.failure is None and self.underway is not None:
            over = self.await_device(seconds < 0, deadline)
        if not over:
            raise TimeoutError(
                f"{self.name} is not done after {timeout:g} s; it goes on in the "
                "background, and can be waited for again"
            )
        return self.outcome()

    cdef bint await_device(self, bint forever, double deadline) except -1:
        """Wait for the stream of the device: whether it has come to the end in time."""
        while not forever and not self.underway.done:
            if <double>monotonic() >= deadline:
                return False
            sleep(LOOK)
        self.underway.synchronize()
        return True

    def wait_stream(self, stream=None):
        """Let a stream of a device wait until the call has ended; the host goes on.

        It goes on as soon as all ranks have made the call. Of arrays of the host there
        is nothing that streams could wait for: for these it is the same as
        :meth:`wait`.

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
        if self.status == PENDING:
            self.progress.await_end(self, -1)
        if self.failure is None and self.underway is not None:
            self.underway.hold(stream)
        return self.outcome()

    def result(self, timeout=None):
        """The same as :meth:`wait`, as other futures call it."""
        return self.wait(timeout)

    def exception(self, timeout=None):
        """Wait until the call has ended: what it has raised, or None."""
        try:
            self.wait(timeout)
        except BaseException as error:
            if error is not self.failure:
                raise
        return self.failure

    def add_done_callback(self, callback):
        """Let ``callback(work)`` be called when the call has ended, by any thread."""
        pthread_mutex_lock(&self.progress.mutex)
        cdef bint over = self.status != PENDING
        if not over:
            self.watched = True
            self.callbacks.append(callback)
            self.progress.hasten()  # as nobody may wait here
        pthread_mutex_unlock(&self.progress.mutex)
        if over:
            callback(self)

    cdef int prepare(
        self, Program program, cnp.ndarray source, cnp.ndarray target,
        cnp.ndarray scratch, double waiting
    ) except -1:
        """Take what the call is to be made with."""
        self.program, self.source, self.target = program, source, target
        self.scratch, self.waiting = scratch, waiting
        self.pack()
        return 0

    cdef int prepare_on_device(
        self, underway, cnp.ndarray scratch, double waiting
    ) except -1:
        """Take a call on arrays on devices: what goes on there when the ranks meet."""
        if isinstance(self, Persistent):
            raise TypeError(
                f"{self.name}: on arrays on a device, capture the call itself in a "
                "graph, which can be launched again and again"
            )
        self.prepare(
            underway.exchange, underway.mine, underway.everyone, scratch, waiting
        )
        self.underway, self.watched = underway, True
        return 0

    cdef bint is_short(self) noexcept:
        """Whether the call hardly takes longer than it takes to wake a thread."""
        cdef int64_t size = 0
        if self.source is not None:
            size = cnp.PyArray_NBYTES(self.source)
        if self.target is not None:
            size = max(size, cnp.PyArray_NBYTES(self.target))
        return size <= SHORT and self.underway is None

    cdef int pack(self) except -1:
        """Find where the arrays are, or pack them."""
        cdef int status = self.program.bind(
            &self.arrays, self.source, self.target, self.scratch
        )
        if status == NEEDS_PACKING:
            self.packed_source, self.packed_target = packed(
                self.source, self.target, self.name
            )
            self.watched = True
            self.program.bind(
                &self.arrays, self.packed_source, self.packed_target, self.scratch
            )
        return 0

    cdef int settle(self, int status) except -100:
        """Unpack the result, or find out why there is none."""
        try:
            if status == GO_ON:
                if self.underway is not None:
                    self.underway.go_on()
                if self.packed_target is not None:
                    (<object>self.target)[...] = self.packed_target
                return status
            self.cope(
                self.program, self.source, self.target, self.waiting, self.name, status,
                None,
            )
            raise CommunicatorClosed(
                f"{self.name}: the communicator was closed before this call had ended",
                collective=self.name,
            )
        except BaseException as error:
            file, line = self.place
            if hasattr(error, "add_note"):  # from Python 3.11 on
                error.add_note(f"called in the background at {file}:{line}")
            self.failure = error
        return CLOSED

    cdef object outcome(self):
        if self.failure is not None:
            raise self.failure
        return self.value


cdef class Persistent(Work):
    """A call that is made again and again with the same arrays.

    Everything that can be done once is done once. The ranks must make it in the same
    order as their other calls.
    """

    def __init__(self, owner, str name, Progress progress, cope):
        super().__init__(owner, name, progress, cope)
        self.status = GO_ON

    def __call__(self):
        """Make the call in the foreground; gives what it returns."""
        self.check_idle()
        self.owner.run_again(self)
        return self.value

    def start(self):
        """Make the call in the background; :meth:`wait` gives what it returns."""
        self.check_idle()
        self.status, self.failure = PENDING, None
        if self.packed_source is not None:
            self.pack()
        self.progress.submit(self)
        return self

    cdef int check_idle(self) except -1:
        if self.status == PENDING:
            raise CollalgoError(
                f"{self.name}: this persistent call is still under way; wait for it "
                "before it is made again", collective=self.name,
            )
        return 0


cdef class Progress:
    """What a communicator is to do in the background.

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
        cdef pthread_condattr_t monotonic_clock
        pthread_condattr_init(&monotonic_clock)
        pthread_condattr_setclock(&monotonic_clock, CLOCK_MONOTONIC)
        pthread_mutex_init(&self.mutex, NULL)
        pthread_cond_init(&self.arrived, &monotonic_clock)
        pthread_cond_init(&self.ended, &monotonic_clock)

    def __init__(self, Transport transport, interrupted, Recorder recorder):
        self.transport, self.interrupted = transport, interrupted
        self.recorder = recorder
        self.kept = deque()

    def __dealloc__(self):
        pthread_cond_destroy(&self.ended)
        pthread_cond_destroy(&self.arrived)
        pthread_mutex_destroy(&self.mutex)

    cdef int submit(self, Work work) except -1:
        """Put a call at the end of the queue."""
        cdef bint short = work.is_short()
        self.prune()
        self.kept.append(work)
        work.number = self.recorder.enter(work.program, work.site)
        pthread_mutex_lock(&self.mutex)
        self.submitted = nanoseconds()
        if self.waiting == 0:
            self.first = <void *>work
            self.due = self.submitted + MOMENT
        else:
            self.last.next = work
        self.last = work
        self.waiting += 1
        if not short:
            self.hasten()
        elif not self.watching:
            pthread_cond_signal(&self.arrived)
        pthread_mutex_unlock(&self.mutex)
        if self.thread is None:
            self.used = True
            thread = Thread(target=self.serve, name="collalgo", daemon=True)
            thread.start()
            self.thread = thread
        return 0

    def serve(self):
        """Run what is in the queue until the end: what the thread does."""
        cdef bint tidy = True
        while not self.closing or self.waiting:
            with nogil:
                while self.await_call(tidy):
                    self.perform_next(True)
                    tidy = False
            self.prune()
            tidy = True

    cdef bint await_call(self, bint tidy) noexcept nogil:
        """Let the thread wait until it is to run a call.

        It waits for ever only if all is tidy, and not at the end: otherwise it is told
        that there is none.
        """
        cdef int64_t began = nanoseconds(), pause = MOMENT, now, look
        cdef bint free = False
        cdef timespec until
        pthread_mutex_lock(&self.mutex)
        while True:
            now = nanoseconds()
            free = self.waiting and not self.running
            if free and (self.due <= now or self.closing):
                break
            if self.closing and not self.waiting:
                break
            self.watching = free or now < self.submitted + LINGER
            if free:
                look = self.due
            elif self.watching:
                look = now + pause
                pause = min(2 * pause, SELDOM)
            elif now >= began + TIDY and not tidy:
                break
            else:
                look = 0 if tidy else began + TIDY
            if look:
                until = at(look)
                pthread_cond_timedwait(&self.arrived, &self.mutex, &until)
            else:
                pthread_cond_wait(&self.arrived, &self.mutex)
        self.watching = False
        pthread_mutex_unlock(&self.mutex)
        return free

    cdef void hasten(self) noexcept nogil:
        """Let the thread run what is in the queue at once; the mutex is mine."""
        self.due = nanoseconds()
        if self.waiting:
            pthread_cond_signal(&self.arrived)

    cdef void rouse(self) noexcept nogil:
        """Wake the thread if there is something to do that it would not see."""
        pthread_mutex_lock(&self.mutex)
        if self.waiting and not self.watching:
            pthread_cond_signal(&self.arrived)
        pthread_mutex_unlock(&self.mutex)

    def stop(self):
        """Let what has not begun fail, and the thread end."""
        pthread_mutex_lock(&self.mutex)
        self.closing = True
        pthread_cond_broadcast(&self.arrived)
        pthread_mutex_unlock(&self.mutex)

    def join(self):
        """Wait for the end of the thread."""
        if self.thread is not None and self.thread is not current_thread():
            self.thread.join()
        self.prune()

    cdef int perform_next(self, bint gives_way) noexcept nogil:
        """Run the next call of the queue: its status, or PENDING if there is none.

        The thread gives way to what the caller computes meanwhile.
        """
        cdef int status = CLOSED
        cdef void *work
        pthread_mutex_lock(&self.mutex)
        if self.running or not self.waiting:
            pthread_mutex_unlock(&self.mutex)
            return PENDING
        work = self.current = self.first
        self.first = <void *>(<Work>work).next
        self.waiting -= 1
        self.running = True
        pthread_mutex_unlock(&self.mutex)
        if not self.closing:
            self.recorder.begin((<Work>work).number)
            if self.transport.log != NULL:
                self.transport.log.call = (<Work>work).number
            self.transport.give_way(gives_way)
            status = (<Work>work).program.run_without_gil(
                self.transport, &(<Work>work).arrays, (<Work>work).waiting
            )
            self.transport.give_way(False)
        self.recorder.end((<Work>work).number, status)
        if status == INTERRUPTED:
            return status  # which ends when its exception has been told
        if status != GO_ON or not self.end(work, status, False):
            with gil:
                self.end_with_gil(<Work>work, status)
        return status

    cdef bint end(self, void *work, int status, bint with_gil) noexcept nogil:
        """Let a call have ended, unless somebody has to be told who needs the GIL."""
        pthread_mutex_lock(&self.mutex)
        cdef bint possible = with_gil or not (<Work>work).watched
        if possible:
            (<Work>work).status = status
            self.running = False
            pthread_cond_broadcast(&self.ended)
        pthread_mutex_unlock(&self.mutex)
        return possible

    cdef void end_with_gil(self, Work work, int status):
        self.end(<void *>work, work.settle(status), True)
        callbacks, work.callbacks = work.callbacks, []
        work.watched = work.packed_target is not None
        for callback in callbacks:
            try:
                callback(work)
            except BaseException:  # like those of other futures
                sys.excepthook(*sys.exc_info())

    cdef int prune(self) except -1:
        """Let go what has ended.

        Nothing is freed before all is in order: that may let other threads run.
        """
        cdef Work work
        gone = []
        while self.kept and (<Work>self.kept[0]).status != PENDING:
            work = self.kept.popleft()
            work.next = None
            gone.append(work)
        if not self.kept:
            self.last = None
        return 0

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

    cdef bint await_end(self, Work work, double seconds) except -1:
        """Wait for the end of a call, for ever or so many seconds: whether it came."""
        cdef double left = DOZE, deadline = monotonic() + seconds
        cdef int status = PENDING
        self.check_open(work)
        while work.status == PENDING:
            if seconds >= 0:
                left = deadline - <double>monotonic()
                if left <= 0:
                    return False
            with nogil:
                if seconds < 0:  # else it could take longer
                    status = self.help_until(<void *>work)
                if status != INTERRUPTED and work.status == PENDING:
                    self.doze(<void *>work, min(left, DOZE))
            if status == INTERRUPTED:
                self.raise_interrupted()
            PyErr_CheckSignals()
        self.prune()
        return True

    def check_open(self, Work work):
        """See that calls can be made: not in a child, nor after the end."""
        if (<object>self.transport).forked or self.closing:
            work.cope(None, None, None, -1, work.name, CLOSED, None)

    cdef int help_until(self, void *work) noexcept nogil:
        """Run calls until one has ended or another thread runs one, or interrupted."""
        cdef int status = GO_ON
        while status != PENDING and status != INTERRUPTED:
            if work != NULL and (<Work>work).status != PENDING:
                break
            status = self.perform_next(False)
        self.rouse()  # who was at work has left
        return status

    cdef void doze(self, void *work, double seconds) noexcept nogil:
        """Wait a little for the end of a call, or of any."""
        cdef timespec until = at(nanoseconds() + <int64_t>(seconds * 1e9))
        pthread_mutex_lock(&self.mutex)
        if work == NULL and self.running or (
            work != NULL and (<Work>work).status == PENDING
        ):
            pthread_cond_timedwait(&self.ended, &self.mutex, &until)
        pthread_mutex_unlock(&self.mutex)

    cdef int raise_interrupted(self) except -1:
        """Raise what a signal has brought about in a call that I ran for the thread."""
        cdef Work work = <Work>self.current
        try:
            if PyErr_Occurred():
                reraise()
        except BaseException as error:
            self.interrupted(work.name, error)
            self.end_with_gil(work, CLOSED)
            self.rouse()
            raise
        return 0


cdef int reraise() except? -1:
    """Let the exception that is set be seen by who calls."""
    return -1
