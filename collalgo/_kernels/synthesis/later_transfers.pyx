# cython: language_level=3, wraparound=False, boundscheck=False
# cython: freethreading_compatible=True
"""Transfers that wait for no other, but for their time: the steps before need not look at
them, however many there are."""

import numpy as np


cdef class LaterTransfers:
    """The transfers that wait for no other, in the order of their times.

    Parameters
    ----------
    waits
        The number of transfers that each one waits for. Those without wait for one more:
        their time.
    times
        The time of each transfer, in ascending order; None for the beginning.
    """

    def __init__(self, int64_t[::1] waits, const double[::1] times):
        found = np.flatnonzero(np.asarray(waits) == 0)
        np.asarray(waits)[found] = 1
        self.transfers, self.times, self.first = found, times, 0

    cdef bint left(self) noexcept:
        """Whether some are not due yet."""
        return self.first < self.transfers.shape[0]

    cdef Py_ssize_t due(self, double until, bint one) noexcept:
        """The end of those that are due, or of the next one."""
        cdef Py_ssize_t count = self.transfers.shape[0]
        if self.times is None:
            self.first = count
        elif one and self.first < count:
            self.first += 1
        while self.first < count and self.times[self.transfers[self.first]] <= until:
            self.first += 1
        return self.first
