# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The progress thread, which runs calls in the background without the GIL.

It leaves a short call to a possible waiter for a short time, because waking a thread takes
longer than the call.
"""

from libc.stdint cimport int64_t
from posix.time cimport timespec

from threading import Thread, current_thread
from time import monotonic, sleep

from collalgo.base.threads import start

from collalgo._kernels.engine.program cimport INTERRUPTED
from collalgo._kernels.comm.clock cimport nanoseconds
from collalgo._kernels.comm.pthreads cimport (
    at,
    condition,
    pthread_cond_broadcast,
    pthread_cond_destroy,
    pthread_cond_signal,
    pthread_cond_timedwait,
    pthread_cond_wait,
    pthread_mutex_lock,
    pthread_mutex_unlock,
)
from collalgo._kernels.comm.recorder cimport Recorder
from collalgo._kernels.comm.task cimport PENDING, Task
from collalgo._kernels.comm.waiting cimport WaitableQueue
from collalgo._kernels.engine.transport.transport cimport Transport

cdef int64_t TIDY = 100_000_000  # ns without work before arrays are released
cdef int64_t HANDOVER = 100_000  # ns in which a waiter may run a short call itself
cdef int64_t LINGER = 10_000_000  # ns after a call in which the thread polls
cdef int64_t HELD = 100_000_000  # ns before the thread runs held calls
cdef int64_t HABIT = 10 * HELD  # ns after a held call in which more are expected
cdef int64_t NEVER = 1 << 62
cdef double LEFTOVERS = 1e-3  # s between two checks whether all calls have ended
cdef int64_t SELDOM = 1_000_000  # ns between two polls if each call has a waiter


cdef class Progress(WaitableQueue):
    """A queue with a thread, started by the first call; see :class:`Queue`."""

    def __cinit__(self):
        condition(&self.arrived)

    def __init__(self, Transport transport, interrupted, Recorder recorder):
        super().__init__(transport, interrupted, recorder)
        self.wakes = NEVER

    def __dealloc__(self):
        pthread_cond_destroy(&self.arrived)

    # ---- the thread

    cdef int submit(self, Task task) except -1:
        """Append a call to the queue."""
        if self.thread is None:
            self.thread = start(Thread(target=self.serve, name="collalgo", daemon=True))
            self.used = True
        self.append(task)
        return 0

    def serve(self):
        """Run the calls of the queue until the end, in the thread."""
        cdef bint tidy = True
        while not self.closing or self.waiting:
            with nogil:
                while self.await_call(tidy):
                    self.perform_next(True)
                    tidy = False
            self.prune()
            tidy = True

    def drain(self):
        """Wait for the end of all calls in the background."""
        self.reserve()
        self.release()

    def stop(self):
        """Fail the calls that have not begun, end the thread; return if any failed."""
        cdef bint unfinished
        pthread_mutex_lock(&self.mutex)
        unfinished = self.waiting or self.running
        self.closing = True
        pthread_cond_broadcast(&self.arrived)
        pthread_mutex_unlock(&self.mutex)
        return unfinished

    def leftovers(self, double seconds):
        """The calls that have not ended after some seconds, and one that failed unseen.

        Returns
        -------
        list of tuple
            Of each its name and number, its file and line, and the text of its error or None.
        """
        cdef double end = monotonic() + seconds
        cdef Task task
        self.release_held()
        while (self.waiting or self.running) and <double>monotonic() < end:
            sleep(LEFTOVERS)
        found = [] if self.failed is None or self.is_known else [self.failed]
        for task in list(self.kept):
            if task.status == PENDING:
                found.append((task.name, task.number, task.site.place, None))
        return found

    def join(self):
        """Wait for the end of the thread."""
        if self.thread is not None and self.thread is not current_thread():
            self.thread.join()
        self.prune()

    # ---- when the thread runs calls

    cdef bint await_call(self, bint tidy) noexcept nogil:
        """Wait, in the thread, until a call has to be run; return whether there is one.

        It waits without a limit only if all ended calls are released.
        """
        cdef int64_t now = nanoseconds(), pause = HANDOVER
        cdef int64_t release = NEVER if tidy else now + TIDY
        cdef bint free
        pthread_mutex_lock(&self.mutex)
        while True:
            free = self.waiting and not self.running
            if free:
                self.wakes = max(self.due, self.held_until)
            else:
                self.wakes = self.next_poll(now, release, &pause)
            if self.wakes <= now or self.closing and (free or not self.waiting):
                break
            self.sleep_until_wake()
            now = nanoseconds()
        self.wakes = NEVER
        pthread_mutex_unlock(&self.mutex)
        return free

    cdef int64_t next_poll(
        self, int64_t now, int64_t release, int64_t *pause
    ) noexcept nogil:
        """The time of the next poll of the thread, while it has no call to run.

        ``release`` is the time to release the calls that have ended, without a new call.
        """
        if now < self.last_held + HABIT:
            return now + HELD  # so that none of them wakes it
        if now < self.submitted + LINGER:
            release = now + pause[0]
            pause[0] = min(2 * pause[0], SELDOM)
        return release

    cdef void sleep_until_wake(self) noexcept nogil:
        """Sleep until the next poll, or until a call wakes the thread."""
        cdef timespec until
        if self.wakes == NEVER:
            pthread_cond_wait(&self.arrived, &self.mutex)
        else:
            until = at(self.wakes)
            pthread_cond_timedwait(&self.arrived, &self.mutex, &until)

    cdef void arrive(self, bint short) noexcept nogil:
        self.submitted = nanoseconds()
        if self.waiting == 1:
            self.due = self.submitted + HANDOVER
        if short:
            self.wake_if_late()
        else:
            self.run_soon()

    cdef void run_soon(self) noexcept nogil:
        """Make the thread run the queue immediately; the caller holds the mutex."""
        self.due = nanoseconds()
        if self.held_until > self.due:
            self.wake_if_late()
        elif self.waiting:
            pthread_cond_signal(&self.arrived)

    cdef void wake_if_late(self) noexcept nogil:
        """Wake the thread if it would poll too late; the caller holds the mutex."""
        if self.waiting and max(self.due, self.held_until) + SELDOM < self.wakes:
            pthread_cond_signal(&self.arrived)

    cdef void wake(self) noexcept nogil:
        """The same; the caller does not hold the mutex."""
        pthread_mutex_lock(&self.mutex)
        self.wake_if_late()
        pthread_mutex_unlock(&self.mutex)

    def hold(self):
        """Hold calls for :meth:`catch_up` if the thread has no core: whether they are held.

        The thread runs them itself some time after the last call was held.
        """
        if self.transport.lacks_cores:
            pthread_mutex_lock(&self.mutex)
            self.last_held = nanoseconds()
            self.held_until = self.last_held + HELD
            pthread_mutex_unlock(&self.mutex)
        return self.transport.lacks_cores

    def catch_up(self):
        """Run the held calls."""
        cdef int status
        with nogil:
            status = self.help_until(NULL)
            self.release_held()
        if status == INTERRUPTED:
            self.raise_interrupted()
        self.prune()

    cdef void release_held(self) noexcept nogil:
        """Stop holding calls."""
        pthread_mutex_lock(&self.mutex)
        if self.held_until:
            self.held_until = 0
            self.run_soon()
        pthread_mutex_unlock(&self.mutex)
