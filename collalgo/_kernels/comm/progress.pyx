# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""The thread that runs calls in the background, without the GIL.

It runs what would otherwise lie about. Short calls it leaves for a moment to who may wait
for them: to wake a thread takes longer than they do.
"""

from libc.stdint cimport int64_t
from posix.time cimport timespec

from threading import Thread, current_thread

from collalgo._kernels.engine.engine cimport INTERRUPTED
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
from collalgo._kernels.comm.queue cimport Queue, Task
from collalgo._kernels.comm.recorder cimport Recorder, nanoseconds
from collalgo._kernels.engine.transport.transport cimport Transport

cdef int64_t TIDY = 100_000_000  # ns without work after which arrays are let go
cdef int64_t MOMENT = 100_000  # ns, after which the thread may run what is short
cdef int64_t LINGER = 10_000_000  # ns after a call in which the thread looks by itself
cdef int64_t HELD = 100_000_000  # ns in which somebody is to catch up on what is held
cdef int64_t HABIT = 10 * HELD  # ns after a call was held in which more will be
cdef int64_t NEVER = 1 << 62
cdef int64_t SELDOM = 1_000_000  # ns between two looks, if all that comes is waited for


cdef class Progress(Queue):
    """A queue with a thread, which begins with the first call; see :class:`Queue`."""

    def __cinit__(self):
        condition(&self.arrived)

    def __init__(self, Transport transport, interrupted, Recorder recorder):
        super().__init__(transport, interrupted, recorder)
        self.wakes = NEVER

    def __dealloc__(self):
        pthread_cond_destroy(&self.arrived)

    # ---- its life

    cdef int submit(self, Task task) except -1:
        """Put a call at the end of the queue."""
        self.append(task)
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

    # ---- when it looks for calls

    cdef bint await_call(self, bint tidy) noexcept nogil:
        """Let the thread wait until it is to run a call.

        It waits for ever only if all is tidy, and not at the end: otherwise it is told
        that there is none.
        """
        cdef int64_t began = nanoseconds(), pause = MOMENT, now
        cdef bint free = False
        cdef timespec until
        pthread_mutex_lock(&self.mutex)
        while True:
            now = nanoseconds()
            free = self.waiting and not self.running
            self.wakes = max(self.due, self.held_until)
            if free and (self.wakes <= now or self.closing):
                break
            if self.closing and not self.waiting:
                break
            if free:
                pass
            elif now < self.last_held + HABIT:
                self.wakes = now + HELD  # so that none of them wakes it
            elif now < self.submitted + LINGER:
                self.wakes = now + pause
                pause = min(2 * pause, SELDOM)
            elif now >= began + TIDY and not tidy:
                break
            else:
                self.wakes = NEVER if tidy else began + TIDY
            if self.wakes == NEVER:
                pthread_cond_wait(&self.arrived, &self.mutex)
            else:
                until = at(self.wakes)
                pthread_cond_timedwait(&self.arrived, &self.mutex, &until)
        self.wakes = NEVER
        pthread_mutex_unlock(&self.mutex)
        return free

    cdef void arrive(self, bint short) noexcept nogil:
        self.submitted = nanoseconds()
        if self.waiting == 1:
            self.due = self.submitted + MOMENT
        if short:
            self.remind()
        else:
            self.hasten()

    cdef void hasten(self) noexcept nogil:
        """Let the thread run what is in the queue at once; the mutex is mine."""
        self.due = nanoseconds()
        if self.held_until > self.due:
            self.remind()
        elif self.waiting:
            pthread_cond_signal(&self.arrived)

    cdef void remind(self) noexcept nogil:
        """Wake the thread if it would look too late by itself; the mutex is mine."""
        if self.waiting and max(self.due, self.held_until) + SELDOM < self.wakes:
            pthread_cond_signal(&self.arrived)

    cdef void rouse(self) noexcept nogil:
        """The same; the mutex is not mine."""
        pthread_mutex_lock(&self.mutex)
        self.remind()
        pthread_mutex_unlock(&self.mutex)

    def hold(self):
        """Leave calls to who made them, if there is no core for the thread: whether so.

        Somebody is to catch up; the thread waits for that only so long after the last
        call was held.
        """
        if self.transport.lacks_cores:
            pthread_mutex_lock(&self.mutex)
            self.last_held = nanoseconds()
            self.held_until = self.last_held + HELD
            pthread_mutex_unlock(&self.mutex)
        return self.transport.lacks_cores

    def catch_up(self):
        """Make the calls that were held."""
        cdef int status
        with nogil:
            status = self.help_until(NULL)
            self.let_go()
        if status == INTERRUPTED:
            self.raise_interrupted()
        self.prune()

    cdef void let_go(self) noexcept nogil:
        """Hold no calls any more."""
        pthread_mutex_lock(&self.mutex)
        if self.held_until:
            self.held_until = 0
            self.hasten()
        pthread_mutex_unlock(&self.mutex)
