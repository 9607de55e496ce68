# cython: language_level=3, wraparound=False, boundscheck=False
# cython: freethreading_compatible=True
"""Order transfers into steps, so that each step loads its links evenly.

Steps may have different lengths. A long step saves the start-up of several short ones, but
a link without ready transfers is idle until the next step; so a step is as long as the
links with the largest remaining load have ready transfers.
"""

from libc.stdint cimport int64_t

import numpy as np

from collalgo._kernels.synthesis.lane_sets cimport LaneSets
from collalgo._kernels.synthesis.later_transfers cimport LaterTransfers
from collalgo._kernels.synthesis.link_loads cimport LinkLoads
from collalgo._kernels.synthesis.sorting cimport merge

from collalgo._kernels.synthesis.sorting import grouped

ctypedef const int64_t[::1] ints

#: The time for which a link with the largest remaining load may be idle in a step, as a
#: part of the shortest step.
cdef double IDLE = 0.5


cdef class Ordering:
    """Transfers in steps of about the same time.

    Parameters
    ----------
    pair
        The pair of ranks of each transfer, in the order of their priority.
    first, links, busy
        The directed links of each pair, as of a packing, and the seconds that a
        transfer keeps each of them busy.
    first_after, after
        The transfers that wait for each transfer, and the index of the first of them.
    joint
        A key of each transfer: those with the same key carry one unit between one rank
        and several others. It is -1 for transfers that can be together with any.
    part
        0 or 1 for each transfer: those of one key in one step are of one part.
    hub, spoke
        For each transfer the one rank of its unit, and the other rank.
    several
        Whether a step can have several transfers with the same key; else it has one.
    count
        The number of directed links.
    weights
        The amount of data of each transfer; by default 1.

    Attributes
    ----------
    lane : ndarray
        The lane of each transfer.
    """

    cdef ints pair, first_after, after, joint, part
    cdef const double[::1] weights
    cdef LinkLoads loads
    cdef LaneSets sets
    cdef int64_t[::1] step, waits
    cdef ints first_member, members
    cdef int64_t[::1] begun, tried, chosen
    cdef int64_t attempt
    cdef Py_ssize_t offered
    cdef bint several, whole, has_some
    cdef double least, fraction, most, growth, length

    def __init__(
        self,
        ints pair,
        ints first,
        ints links,
        const double[::1] busy,
        ints first_after,
        ints after,
        ints joint,
        ints part,
        ints hub,
        ints spoke,
        bint several,
        Py_ssize_t count,
        weights=None,
    ):
        self.pair, self.first_after, self.after = pair, first_after, after
        self.joint, self.part, self.several = joint, part, several
        self.weights = np.ones(len(pair)) if weights is None else weights
        self.loads = LinkLoads(first, links, busy, count)
        ranks = 0
        if np.asarray(joint).max(initial=-1) >= 0:
            ranks = max(np.asarray(hub).max(), np.asarray(spoke).max()) + 1
        self.sets = LaneSets(hub, spoke, ranks)
        self._find_members()

    def _find_members(self):
        """Sort the transfers by their keys and parts."""
        joint = np.asarray(self.joint)
        keys = int(joint.max(initial=-1)) + 1
        key = np.where(joint < 0, -1, 2 * joint + self.part)
        self.first_member, self.members = grouped(key, 2 * keys)
        self.begun, self.tried = np.empty(keys, np.int64), np.empty(2 * keys, np.int64)
        self.chosen = np.empty(len(joint), np.int64)

    @property
    def lane(self):
        return np.asarray(self.sets.lane)

    def steps(self, pace, const double[::1] due=None):
        """The step of each transfer; a link is busy for longer by one transfer only.

        Parameters
        ----------
        pace
            The lengths of the steps; see :class:`~collalgo.synthesis.paces.Pace`.
        due
            The times of transfers in ascending order, before which they are not tried.
        """
        cdef Py_ssize_t count = self.pair.shape[0], waiting = 0, kept, begun, number = 0
        cdef int64_t[:, ::1] lists = np.empty((3, count), np.int64)
        cdef int64_t[::1] ready = lists[0], taken = lists[1], released = lists[2]
        cdef LaterTransfers later
        self.least, self.fraction, self.most, self.growth = pace[:4]
        self.whole = pace.whole
        self._begin_all()
        later = LaterTransfers(self.waits, due)
        while waiting or later.left():
            waiting = self._admit(later, ready, waiting)
            kept = self._take_step(ready[:waiting], taken, number)
            begun = self._release(taken[: waiting - kept], released)
            np.asarray(released)[:begun].sort()
            merge(ready, kept, released[:begun])
            waiting = kept + begun
            number += 1
        return np.asarray(self.step)

    cdef Py_ssize_t _admit(
        self, LaterTransfers later, int64_t[::1] ready, Py_ssize_t waiting
    ) noexcept:
        """Add the transfers that are due to the ready ones; the number of all."""
        cdef Py_ssize_t first = later.first, end = later.due(self.loads.until, not waiting)
        cdef Py_ssize_t j, i
        for j in range(first, end):
            i = later.transfers[j]
            self.waits[i] = 0
            self.loads.prepare(self.pair[i], self.weights[i])
        merge(ready, waiting, later.transfers[first:end])
        return waiting + end - first

    def _begin_all(self):
        """Begin without steps; count the load of each link."""
        cdef Py_ssize_t i, count = self.pair.shape[0]
        self.step = np.full(count, -1, np.int64)
        self.waits = np.bincount(self.after, minlength=count).astype(np.int64)
        self.loads.clear()
        for i in range(count):
            self.loads.plan(self.pair[i], self.weights[i])
        self.attempt, self.length = 0, 0
        self.begun[:] = -1
        self.tried[:] = -1
        self.sets.forget()

    cdef Py_ssize_t _take_step(
        self, int64_t[::1] ready, int64_t[::1] taken, Py_ssize_t number
    ):
        """Take some ready transfers in a step, and keep the others; their number."""
        cdef Py_ssize_t kept
        cdef double limit, beyond
        if self.growth:
            limit = min(self.most, self.growth * self.length)
            beyond = max(0.0, self.loads.most_left() - self.least)
            self.length = min(limit, self.least + self.fraction * beyond)
            self.length = max(self.least, self.length)
            return self._fill(ready, taken, number, self.length)
        self.length = min(self.most, self.loads.possible_length(self.fraction))
        kept = self._fill(ready, taken, number, max(self.least, self.length))
        while self.length > self.least and self.loads.is_idle(IDLE * self.least):
            self.length /= 2
            self._undo(taken[: ready.shape[0] - kept])
            merge(ready, kept, taken[: ready.shape[0] - kept])
            kept = self._fill(ready, taken, number, max(self.least, self.length))
        return kept

    cdef void _undo(self, int64_t[::1] taken) noexcept:
        """Take all transfers of a step out of it."""
        cdef Py_ssize_t j
        for j in range(taken.shape[0]):
            self.loads.give_back(self.pair[taken[j]], self.weights[taken[j]])
            self.step[taken[j]] = -1
        self.loads.end_early()

    cdef Py_ssize_t _fill(
        self,
        int64_t[::1] ready,
        int64_t[::1] taken,
        Py_ssize_t number,
        double length,
    ) noexcept:
        """Take those ready transfers that fit into some seconds; the number left."""
        cdef Py_ssize_t i, j, kept = 0, begun = 0
        self.loads.begin(length)
        self.sets.begin()
        self.has_some = False
        self.attempt += 1
        for j in range(ready.shape[0]):
            i = ready[j]
            if self.loads.pairs_open:
                self._try(i, number)
            if self.step[i] >= 0:
                taken[begun] = i
                begun += 1
                self.has_some = True
            else:
                ready[kept] = i
                kept += 1
        return kept

    cdef void _try(self, Py_ssize_t i, Py_ssize_t number) noexcept:
        """Take a transfer, and those with its key, if the step has room for it."""
        if self.step[i] >= 0:
            return
        if self.several and self.joint[i] >= 0:
            self._take_joint(i, number)
        else:
            self._take_one(i, number)

    cdef void _take_one(self, Py_ssize_t i, Py_ssize_t number) noexcept:
        """Take a transfer that fits, unless the step has one with its key."""
        cdef int64_t key = self.joint[i]
        if key >= 0 and self.begun[key] == self.attempt:
            return
        if not self.loads.fits(self.pair[i], self.weights[i]):
            return
        self.loads.take(self.pair[i], self.weights[i])
        self.step[i] = number
        if key >= 0:
            self.begun[key] = self.attempt

    cdef void _take_joint(self, Py_ssize_t i, Py_ssize_t number) noexcept:
        """Take transfers like one of a key that fit and that have a lane together."""
        cdef int64_t joint = self.joint[i], key = 2 * joint + self.part[i]
        cdef Py_ssize_t count, taken, j
        if self.begun[joint] == self.attempt or self.tried[key] == self.attempt:
            return
        self.tried[key] = self.attempt
        count = self._choose(key)
        if self.whole and self.has_some and count < self.offered:
            self._leave(key, 0, count)
            return
        taken = self.sets.put(self.chosen, count)
        self._leave(key, taken, count)
        for j in range(taken):
            self.step[self.chosen[j]] = number
        if taken:
            self.begun[joint] = self.attempt

    cdef Py_ssize_t _choose(self, int64_t key) noexcept:
        """Load the links with those transfers of a part that fit; their number."""
        cdef Py_ssize_t i, place, count = 0
        self.offered = 0
        for place in range(self.first_member[key], self.first_member[key + 1]):
            i = self.members[place]
            if self.waits[i] or self.step[i] >= 0:
                continue
            self.offered += 1
            if self.loads.fits(self.pair[i], self.weights[i]):
                self.loads.take(self.pair[i], self.weights[i])
                self.chosen[count] = i
                count += 1
        return count

    cdef void _leave(self, int64_t key, Py_ssize_t kept, Py_ssize_t count) noexcept:
        """Take the chosen transfers of a part off the links, but for the first ones."""
        cdef Py_ssize_t j
        for j in range(kept, count):
            self.loads.give_back(self.pair[self.chosen[j]], self.weights[self.chosen[j]])
        for j in range(self.first_member[key], self.first_member[key + 1]):
            self.loads.reopen(self.pair[self.members[j]])

    cdef Py_ssize_t _release(
        self, int64_t[::1] taken, int64_t[::1] released
    ) noexcept:
        """Find the transfers that waited only for transfers of a step; their number."""
        cdef Py_ssize_t i, j, after, found = 0
        for i in range(taken.shape[0]):
            for j in range(self.first_after[taken[i]], self.first_after[taken[i] + 1]):
                after = self.after[j]
                self.waits[after] -= 1
                if not self.waits[after]:
                    released[found] = after
                    found += 1
                    self.loads.prepare(self.pair[after], self.weights[after])
        return found
