# cython: language_level=3, wraparound=False, boundscheck=False
# cython: freethreading_compatible=True
"""The seconds that links are busy, while transfers are ordered into steps."""

import numpy as np

#: A link must not be idle if its remaining load is at least this part of the largest one.
cdef double CRITICAL = 0.9

#: The difference of sums by rounding.
cdef double ROUNDING = 1e-9


cdef class LinkLoads:
    """The load of each link in a step, and its remaining load.

    Parameters
    ----------
    first, links, busy
        The directed links of each pair of ranks, as of a packing, and the seconds that
        a transfer of weight 1 keeps each of them busy.
    count
        The number of directed links.

    Attributes
    ----------
    pairs_open
        The number of pairs with a transfer that is ready and may fit into the step. A
        pair is refused from its first transfer that does not fit until the step gets
        longer, since the loads of its links only grow.
    """

    def __init__(
        self,
        const int64_t[::1] first,
        const int64_t[::1] links,
        const double[::1] busy,
        Py_ssize_t count,
    ):
        self.first, self.links, self.busy = first, links, busy
        self.now, self.total, self.left, self.ready = np.zeros((4, count))
        # A pair is refused if its entry is the state; a new state reopens all pairs.
        self.waiting, self.refused = np.zeros((2, len(first) - 1), np.int64)
        self.state = 0

    cdef void clear(self) noexcept:
        """Begin without steps and without loads."""
        self.now[:] = 0
        self.total[:] = 0
        self.left[:] = 0
        self.ready[:] = 0
        self.waiting[:] = 0
        self.pairs_waiting = 0
        self.until = 0

    cdef void begin(self, double length) noexcept:
        """Begin a step of some seconds, in which all links are empty."""
        self.now[:] = 0
        self.longest = self.length = length
        self.until += length
        self._reopen_all()

    cdef void end_early(self) noexcept:
        """Drop a step, after all its transfers have been taken off the links."""
        self.until -= self.length

    cdef bint fits(self, Py_ssize_t pair, double weight) noexcept:
        """Whether a transfer does not make the step longer, or is late already."""
        cdef Py_ssize_t i, link
        cdef double now, busy
        if self.refused[pair] == self.state:
            return False
        for i in range(self.first[pair], self.first[pair + 1]):
            link, busy = self.links[i], weight * self.busy[i]
            now = self.now[link] + busy
            if now <= self.longest * (1 + ROUNDING):
                continue
            if self.now[link] or (
                self.total[link] + busy > self.until * (1 + ROUNDING)
            ):
                self.refused[pair] = self.state
                self.pairs_open -= 1
                return False
        return True

    cdef void reopen(self, Py_ssize_t pair) noexcept:
        """Allow a pair again, after transfers have been taken off its links."""
        if self.refused[pair] == self.state:
            self.refused[pair] = 0
            self.pairs_open += self.waiting[pair] > 0

    cdef void _reopen_all(self) noexcept:
        """Allow all pairs again."""
        self.state += 1
        self.pairs_open = self.pairs_waiting

    cdef void take(self, Py_ssize_t pair, double weight) noexcept:
        """Load the links of a pair of ranks with a transfer."""
        cdef Py_ssize_t i
        cdef double longest = self.longest
        self._load(pair, weight)
        for i in range(self.first[pair], self.first[pair + 1]):
            longest = max(longest, self.now[self.links[i]])
        self._count(pair, -1)
        if longest > self.longest:
            self.longest = longest
            self._reopen_all()

    cdef void give_back(self, Py_ssize_t pair, double weight) noexcept:
        """Take a transfer off the links of a pair of ranks."""
        self._load(pair, -weight)
        self._count(pair, 1)

    cdef void _load(self, Py_ssize_t pair, double weight) noexcept:
        """Load the links of a pair of ranks in this step."""
        cdef Py_ssize_t i, link
        cdef double busy
        for i in range(self.first[pair], self.first[pair + 1]):
            link, busy = self.links[i], weight * self.busy[i]
            self.now[link] += busy
            self.total[link] += busy
            self.left[link] -= busy
            self.ready[link] -= busy

    cdef void _count(self, Py_ssize_t pair, int64_t transfers) noexcept:
        """Count some more or less transfers of a pair as ready."""
        cdef int64_t before = self.waiting[pair] > 0, change
        self.waiting[pair] += transfers
        change = (self.waiting[pair] > 0) - before
        self.pairs_waiting += change
        self.pairs_open += change if self.refused[pair] != self.state else 0

    cdef void plan(self, Py_ssize_t pair, double weight) noexcept:
        """Add a transfer to the remaining load of its links."""
        self._add(pair, weight, self.left)

    cdef void prepare(self, Py_ssize_t pair, double weight) noexcept:
        """Count a transfer as ready: it waits for no other."""
        self._add(pair, weight, self.ready)
        self._count(pair, 1)

    cdef void _add(
        self, Py_ssize_t pair, double weight, double[::1] seconds
    ) noexcept:
        cdef Py_ssize_t i
        for i in range(self.first[pair], self.first[pair + 1]):
            seconds[self.links[i]] += weight * self.busy[i]

    cdef double most_left(self) noexcept:
        """The largest remaining load."""
        cdef Py_ssize_t link
        cdef double most = 0
        for link in range(self.left.shape[0]):
            most = max(most, self.left[link])
        return most

    cdef double possible_length(self, double fraction) noexcept:
        """The seconds for which the links with the largest remaining load have ready transfers."""
        cdef Py_ssize_t link
        cdef double most = self.most_left(), length = fraction * most
        for link in range(self.left.shape[0]):
            if self.left[link] >= CRITICAL * most:
                length = min(length, self.ready[link])
        return length

    cdef bint is_idle(self, double most) noexcept:
        """Whether a link with the largest remaining load is idle in the step for longer."""
        cdef Py_ssize_t link
        cdef double before = 0
        for link in range(self.left.shape[0]):
            before = max(before, self.left[link] + self.now[link])
        for link in range(self.left.shape[0]):
            if self.left[link] + self.now[link] < CRITICAL * before:
                continue
            if self.longest - self.now[link] > most:
                return True
        return False
