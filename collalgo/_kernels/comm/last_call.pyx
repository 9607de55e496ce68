# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The last call of a collective, to recognise the next one like it."""

cimport cython


@cython.final
cdef class LastCall:
    """The arguments of the last call of a collective, but for its length."""
