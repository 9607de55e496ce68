# cython: language_level=3
# cython: freethreading_compatible=True
"""The exit code of a process in which nobody can catch an error any more."""

from libc.stdio cimport fflush
from posix.types cimport pid_t
from posix.unistd cimport _exit, getpid

cdef extern from "<stdlib.h>" nogil:
    int call_at_exit "atexit"(void (*function)() noexcept nogil)

cdef pid_t failed = 0  # the process that is to fail, which its children are not


cdef void end() noexcept nogil:
    if failed == getpid():
        fflush(NULL)
        _exit(1)


def fail_at_exit():
    """Let this process end with exit code 1, after everything else that it does then."""
    global failed
    if failed != getpid():
        failed = getpid()
        call_at_exit(end)
