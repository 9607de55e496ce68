# cython: language_level=3
# cython: freethreading_compatible=True
"""The exit code of a process whose interpreter ends, where errors cannot be raised."""

from libc.stdio cimport fflush
from posix.types cimport pid_t
from posix.unistd cimport _exit, getpid

cdef extern from "<stdlib.h>" nogil:
    int call_at_exit "atexit"(void (*function)() noexcept nogil)

cdef pid_t failed = 0  # the process that ends with an error; not its children


cdef void end() noexcept nogil:
    if failed == getpid():
        fflush(NULL)
        _exit(1)


def fail_at_exit():
    """Make this process end with exit code 1, after all other exit handlers."""
    global failed
    if failed != getpid():
        failed = getpid()
        call_at_exit(end)
