# cython: language_level=3
"""Callbacks at the end of calls in the background, which any thread may run."""

from collections import deque

from collalgo.base.callbacks import run_callback

cdef extern from "Python.h":
    int Py_AddPendingCall(int (*function)(void *) except -1, void *argument)

cdef object interrupts = deque()  # exceptions for the main thread


cdef int raise_interrupt(void *unused) except -1:
    """Raise the next exception, in the main thread."""
    if not interrupts:
        return 0
    interrupt = interrupts.popleft()
    if interrupts:  # the interpreter takes few requests, and may have dropped one
        Py_AddPendingCall(raise_interrupt, NULL)
    raise interrupt


def raise_in_main_thread(interrupt):
    """Raise an exception in the main thread, as Ctrl-C is."""
    interrupts.append(interrupt)
    Py_AddPendingCall(raise_interrupt, NULL)


def run_callbacks(callbacks, work):
    """Call all callbacks; their errors are reported and not raised.

    KeyboardInterrupt, SystemExit and other exceptions that are no errors are raised in the
    main thread, as Ctrl-C is, since the present one may be a thread of ours.
    """
    found = []
    for callback in callbacks:
        try:
            run_callback(callback, work)
        except BaseException as interrupt:
            found.append(interrupt)
    for interrupt in found:
        raise_in_main_thread(interrupt)
