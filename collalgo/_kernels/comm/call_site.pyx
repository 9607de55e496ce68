# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The code that makes a call."""

import os

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport uintptr_t

cdef extern from "Python.h":
    ctypedef struct PyCodeObject:
        pass
    int PyCode_Addr2Line(PyCodeObject *code, int instruction)

cdef extern from "frames.h":
    ctypedef int (*code_test)(PyObject *code) noexcept
    PyObject *code_of_user(code_test is_inside, int *instruction)

cdef enum:
    PLACES = 64  # of known code; a power of two

# The beginnings of the file names of code that is not the user's.
cdef tuple INSIDE = (os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep,)


def skip_callers(str beginning):
    """Look for the places of calls outside of the files of a framework, too."""
    global INSIDE
    INSIDE = (*INSIDE, beginning)
    for place in range(PLACES):
        known[place] = NULL


# Code of the latest calls by its address, which the list keeps alive, and whether it is
# inside.
cdef list kept = [None] * PLACES
cdef PyObject *known[PLACES]
cdef int[PLACES] verdicts


cdef int judge(PyObject *code, int place) noexcept:
    """Remember whether code lies in a file of this package, or of a framework."""
    verdicts[place] = (<object>code).co_filename.startswith(INSIDE)
    kept[place], known[place] = <object>code, code
    return verdicts[place]


cdef int is_inside(PyObject *code) noexcept:
    """Whether code lies in a file of this package, or of a framework."""
    cdef int place = (<uintptr_t>code >> 5) & (PLACES - 1)
    return verdicts[place] if known[place] == code else judge(code, place)


cdef PyObject *calling_code(int *instruction) noexcept:
    """The code of the user that makes a call, and its instruction.

    That of this package makes the exchanges before some calls.
    """
    return code_of_user(is_inside, instruction)


cdef class CallSite:
    """The place outside this package, and frameworks that use it, that called it."""

    def __init__(self):
        cdef PyObject *code = code_of_user(is_inside, &self.instruction)
        if code != NULL:  # else no code of Python runs in this thread
            self.code = <object>code
            Py_DECREF(self.code)

    @property
    def place(self):
        """The file and the line."""
        if self.code is None:
            return "", 0
        line = PyCode_Addr2Line(<PyCodeObject *>self.code, self.instruction)
        return self.code.co_filename, line
