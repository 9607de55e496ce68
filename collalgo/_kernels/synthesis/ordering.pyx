# cython: language_level=3, wraparound=False, boundscheck=False
# cython: freethreading_compatible=True
"""Order transfers into steps, so that each step loads its links evenly.

Steps may have different lengths. A long step saves the start-up of several short ones,
but a link that has nothing to send before the next step is idle in it; so a step is as
long as those links have something to send that have the most to carry until the end.
"""

from libc.stdint cimport int64_t

import numpy as np

ctypedef const int64_t[::1] ints

#: A link must not be idle if it has as much to carry as this part of the most.
cdef double CRITICAL = 0.9


cdef class Ordering:
    """Transfers in steps of about the same time.

    Parameters
    ----------
    pair
        The pair of ranks of each transfer; transfers that are to come first come first.
    first, links, busy
        The directed links of each pair, as of a packing, and the seconds that a
        transfer keeps each of them busy.
    first_after, after
        The transfers that wait for each transfer, and the index of the first of them.
    alone
        A key of each transfer: of those with the same key only one can be in a step. It
        is -1 for transfers that can be together with any.
    count
        The number of directed links.
    """

    cdef ints pair, first, links, first_after, after, alone
    cdef const double[::1] busy
    cdef double[::1] now, total, left, ready
    cdef double longest, until
    cdef int64_t[::1] step, waits, latest

    def __init__(
        self,
        ints pair,
        ints first,
        ints links,
        const double[::1] busy,
        ints first_after,
        ints after,
        ints alone,
        Py_ssize_t count,
    ):
        self.pair, self.first, self.links, self.busy = pair, first, links, busy
        self.first_after, self.after, self.alone = first_after, after, alone
        keys = np.asarray(alone).max(initial=-1) + 1
        self.latest = np.zeros(keys, np.int64)
        self.now, self.total, self.left, self.ready = np.zeros((4, count))

    def steps(self, double least, double fraction=0):
        """The step of each transfer.

        No link is busy for longer in a step than the step is long, unless one transfer
        takes as long.

        Parameters
        ----------
        least
            The seconds that a step takes at least.
        fraction
            The part of what the busiest link has left to carry that a step takes at
            most, beyond the least.
        """
        cdef Py_ssize_t count = self.pair.shape[0], waiting, kept, number = 0
        cdef int64_t[::1] ready = np.empty(count, np.int64)
        cdef int64_t[::1] taken = np.empty(count, np.int64)
        self.step = np.full(count, -1, np.int64)
        self.waits = np.bincount(self.after, minlength=count).astype(np.int64)
        self._begin_all()
        waiting = self._independent(ready)
        while waiting:
            self._begin(max(least, self._length(fraction)))
            kept = self._fill(ready[:waiting], taken, number)
            waiting = self._merge(ready, kept, taken[: waiting - kept])
            np.asarray(ready)[:waiting].sort()
            number += 1
        return np.asarray(self.step)

    cdef void _begin_all(self) noexcept:
        """Count what each link has to carry."""
        cdef Py_ssize_t i
        self.total[:] = 0
        self.left[:] = 0
        self.ready[:] = 0
        self.latest[:] = -1
        self.until = 0
        for i in range(self.pair.shape[0]):
            self._count(self.pair[i], self.left)

    cdef void _count(self, Py_ssize_t pair, double[::1] of_links) noexcept:
        """Add the seconds of a transfer to those of its links."""
        cdef Py_ssize_t i
        for i in range(self.first[pair], self.first[pair + 1]):
            of_links[self.links[i]] += self.busy[i]

    cdef double _length(self, double fraction) noexcept:
        """The seconds for which the links that have most to carry have some of it."""
        cdef Py_ssize_t link
        cdef double most = 0, length
        for link in range(self.left.shape[0]):
            most = max(most, self.left[link])
        length = fraction * most
        for link in range(self.left.shape[0]):
            if self.left[link] >= CRITICAL * most:
                length = min(length, self.ready[link])
        return length

    cdef Py_ssize_t _independent(self, int64_t[::1] ready) noexcept:
        """Find the transfers that wait for no other; their number."""
        cdef Py_ssize_t i, found = 0
        for i in range(self.pair.shape[0]):
            if not self.waits[i]:
                ready[found] = i
                found += 1
                self._count(self.pair[i], self.ready)
        return found

    cdef Py_ssize_t _fill(
        self, int64_t[::1] ready, int64_t[::1] taken, Py_ssize_t number
    ) noexcept:
        """Take the ready transfers that fit into a step; keep the others, so many."""
        cdef Py_ssize_t i, j, kept = 0, begun = 0
        for j in range(ready.shape[0]):
            i = ready[j]
            if self._is_free(self.alone[i], number) and self._fits(self.pair[i]):
                self._take(self.pair[i])
                if self.alone[i] >= 0:
                    self.latest[self.alone[i]] = number
                self.step[i], taken[begun] = number, i
                begun += 1
            else:
                ready[kept] = i
                kept += 1
        return kept

    cdef void _begin(self, double length) noexcept:
        self.now[:] = 0
        self.longest = length
        self.until += length

    cdef bint _is_free(self, Py_ssize_t key, Py_ssize_t number) noexcept:
        """Whether no transfer of a key is in a step yet."""
        return key < 0 or self.latest[key] != number

    cdef bint _fits(self, Py_ssize_t pair) noexcept:
        """Whether a transfer does not make the step longer, or is late already."""
        cdef Py_ssize_t i, link
        cdef double now
        for i in range(self.first[pair], self.first[pair + 1]):
            link = self.links[i]
            now = self.now[link] + self.busy[i]
            if now <= self.longest * (1 + 1e-9):
                continue
            if self.now[link] or self.total[link] + self.busy[i] > self.until * (1 + 1e-9):
                return False
        return True

    cdef void _take(self, Py_ssize_t pair) noexcept:
        cdef Py_ssize_t i, link
        for i in range(self.first[pair], self.first[pair + 1]):
            link = self.links[i]
            self.now[link] += self.busy[i]
            self.total[link] += self.busy[i]
            self.left[link] -= self.busy[i]
            self.ready[link] -= self.busy[i]
            self.longest = max(self.longest, self.now[link])

    cdef Py_ssize_t _merge(
        self, int64_t[::1] ready, Py_ssize_t kept, int64_t[::1] taken
    ) noexcept:
        """Add the transfers that waited only for those of a step; their number."""
        cdef Py_ssize_t i, j
        for i in range(taken.shape[0]):
            for j in range(self.first_after[taken[i]], self.first_after[taken[i] + 1]):
                self.waits[self.after[j]] -= 1
                if not self.waits[self.after[j]]:
                    ready[kept] = self.after[j]
                    kept += 1
                    self._count(self.pair[self.after[j]], self.ready)
        return kept
