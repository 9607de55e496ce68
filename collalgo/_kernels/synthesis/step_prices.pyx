# cython: language_level=3, wraparound=False, boundscheck=False
# cython: freethreading_compatible=True
"""The price of each step of a plan, from the transfers that represent all."""

from libc.stdint cimport int64_t

import numpy as np

from collalgo._kernels.synthesis.sorting import grouped

ctypedef const int64_t[::1] ints


cdef class StepPrices:
    """The seconds and the messages of each step.

    Parameters
    ----------
    first, links, busy
        The directed links of each pair of ranks, as of a packing, and the seconds of a
        whole buffer on each.
    latencies
        The seconds of a message of each pair without bytes.
    sent, received
        The pair that represents each pair of a sender and a receiver: with the lowest
        sender, or the lowest receiver.
    size, lanes, count
        The numbers of ranks, of lanes and of directed links.

    Attributes
    ----------
    total : ndarray
        The seconds of each directed link over all steps.
    """

    cdef ints first, links, sent, received
    cdef const double[::1] busy, latencies
    cdef int64_t[:, ::1] seen, messages, counted
    cdef double[::1] now, _total
    cdef int64_t[::1] loaded, loaded_in
    cdef Py_ssize_t size, lanes

    def __init__(
        self,
        ints first,
        ints links,
        const double[::1] busy,
        const double[::1] latencies,
        ints sent,
        ints received,
        Py_ssize_t size,
        Py_ssize_t lanes,
        Py_ssize_t count,
    ):
        self.first, self.links, self.busy, self.latencies = first, links, busy, latencies
        self.sent, self.received, self.size, self.lanes = sent, received, size, lanes
        self.seen = np.full((2, size * size * lanes), -1, np.int64)
        self.messages, self.counted = np.zeros((2, 2, size), np.int64)
        self.now, self._total = np.zeros((2, count))
        self.loaded = np.empty(count, np.int64)
        self.loaded_in = np.full(count, -1, np.int64)

    @property
    def total(self):
        return np.asarray(self._total)

    def of(self, ints step, ints pair, ints lane, const double[::1] share, Py_ssize_t steps):
        """The price of steps.

        Parameters
        ----------
        step, pair, lane, share
            The step, the pair of ranks and the lane of each transfer, and the part of
            the buffer that it moves.
        steps
            The number of steps.

        Returns
        -------
        latency, seconds, messages : ndarray
            Of each step the longest latency, the seconds of the busiest link, and the
            messages that the busiest rank sends or receives.
        """
        cdef Py_ssize_t number
        cdef int64_t[::1] start, order
        cdef double[:, ::1] found = np.zeros((2, steps))
        cdef int64_t[::1] messages = np.zeros(steps, np.int64)
        self.counted[:] = -1
        self.loaded_in[:] = -1
        self.seen[:] = -1
        start, order = grouped(step, steps)
        for number in range(steps):
            messages[number] = self._step(
                order[start[number] : start[number + 1]],
                number,
                pair,
                lane,
                share,
                &found[0, number],
                &found[1, number],
            )
        latency, seconds = np.asarray(found)
        return latency, seconds, np.asarray(messages)

    cdef int64_t _step(
        self,
        const int64_t[::1] transfers,
        Py_ssize_t number,
        ints pair,
        ints lane,
        const double[::1] share,
        double *latency,
        double *seconds,
    ) noexcept:
        """Price a step; the most messages of a rank."""
        cdef Py_ssize_t j, used = 0
        cdef int64_t i, of, most = 0
        for j in range(transfers.shape[0]):
            i = transfers[j]
            of = pair[i]
            latency[0] = max(latency[0], self.latencies[of])
            used = self._load(of, share[i], number, used)
            most = max(most, self._count(0, self.sent[of], lane[i], number))
            most = max(most, self._count(1, self.received[of], lane[i], number))
        for j in range(used):
            seconds[0] = max(seconds[0], self.now[self.loaded[j]])
            self._total[self.loaded[j]] += self.now[self.loaded[j]]
        return most

    cdef Py_ssize_t _load(
        self, int64_t pair, double share, Py_ssize_t number, Py_ssize_t used
    ) noexcept:
        """Load the links of a pair in a step; the number of links with a load."""
        cdef Py_ssize_t i
        cdef int64_t link
        for i in range(self.first[pair], self.first[pair + 1]):
            link = self.links[i]
            if self.loaded_in[link] != number:
                self.loaded_in[link], self.now[link] = number, 0
                self.loaded[used] = link
                used += 1
            self.now[link] += share * self.busy[i]
        return used

    cdef int64_t _count(
        self, Py_ssize_t end, int64_t pair, int64_t lane, Py_ssize_t number
    ) noexcept:
        """Count a message once; those of its rank so far."""
        cdef int64_t rank = pair // self.size, message = pair * self.lanes + lane
        if self.counted[end, rank] != number:
            self.counted[end, rank], self.messages[end, rank] = number, 0
        if self.seen[end, message] != number:
            self.seen[end, message] = number
            self.messages[end, rank] += 1
        return self.messages[end, rank]
