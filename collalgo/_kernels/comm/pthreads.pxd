"""Locks, and waiting until a time of the monotonic clock, without the GIL."""

from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, clockid_t, timespec


cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    ctypedef struct pthread_condattr_t:
        pass
    ctypedef unsigned long pthread_t
    pthread_t pthread_self()
    int pthread_getcpuclockid(pthread_t thread, clockid_t *clock)
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


cdef inline void condition(pthread_cond_t *cond) noexcept nogil:
    """Initialise a condition variable that waits until a time of the monotonic clock."""
    cdef pthread_condattr_t monotonic_clock
    pthread_condattr_init(&monotonic_clock)
    pthread_condattr_setclock(&monotonic_clock, CLOCK_MONOTONIC)
    pthread_cond_init(cond, &monotonic_clock)


cdef inline timespec at(int64_t nanosecond) noexcept nogil:
    """A time in nanoseconds as a timespec."""
    cdef timespec time
    time.tv_sec = nanosecond // 1_000_000_000
    time.tv_nsec = nanosecond % 1_000_000_000
    return time
