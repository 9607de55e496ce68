# cython: language_level=3, wraparound=False, boundscheck=False
# cython: freethreading_compatible=True
"""Sets of transfers on lanes: a rank combines messages of equal units from its peers.

A message holds all units that one rank sends another in a step on a lane. So a lane has
sets of pairs of a rank with its peers, each pair in at most one set; a unit takes a whole
set.
"""

import numpy as np

#: The lanes of units that are combined; the number of a set that is not on a lane yet.
cdef enum:
    LANES = 7
    NEW = -1


cdef class LaneSets:
    """The sets on the lanes of a step.

    Parameters
    ----------
    hub, spoke
        For each transfer the rank that combines the unit (in a reversed schedule,
        distributes it), and its peer.
    ranks
        The number of ranks; 0 if nothing is combined.

    Attributes
    ----------
    lane : memoryview
        The lane of each transfer.
    """

    def __init__(
        self, const int64_t[::1] hub, const int64_t[::1] spoke, Py_ssize_t ranks
    ):
        self.hub, self.spoke = hub, spoke
        self.lane, self.length_of, self.hits = np.zeros((3, len(hub)), np.int64)
        self.set_of = np.full((LANES, ranks, ranks), NEW, np.int64)

    cdef void begin(self) noexcept:
        """Begin a step, or begin it again, without sets."""
        self.first_set = self.sets

    cdef void forget(self) noexcept:
        """Forget the sets of all steps."""
        self.sets = self.first_set = 0
        self.set_of[:] = NEW

    cdef Py_ssize_t put(self, int64_t[::1] chosen, Py_ssize_t count) noexcept:
        """Put as many transfers of a unit as possible on one lane; their number.

        They are moved to the front. An existing set of a lane adds no messages, so it is
        preferred to a new one of the same size.
        """
        cdef Py_ssize_t lane, size, best = 0, best_lane = 0
        cdef int64_t found, best_set = NEW
        for lane in range(LANES):
            size = self._largest_on(lane, chosen, count, &found)
            if 2 * size + (found != NEW) > 2 * best + (best_set != NEW):
                best, best_lane, best_set = size, lane, found
        if not best:
            return 0
        if best_set != NEW:
            return self._move(best_lane, chosen, count, best_set, best_set)
        self.length_of[self.sets - self.first_set] = best
        self.sets += 1
        return self._move(best_lane, chosen, count, NEW, self.sets - 1)

    cdef Py_ssize_t _largest_on(
        self,
        Py_ssize_t lane,
        const int64_t[::1] chosen,
        Py_ssize_t count,
        int64_t *largest,
    ) noexcept:
        """The most transfers that are a whole set of a lane, or a new set."""
        cdef Py_ssize_t j, most = 0, new = 0
        cdef int64_t found, place
        largest[0] = NEW
        for j in range(count):
            found = self._set_on(lane, chosen[j])
            if found == NEW:
                new += 1
                continue
            place = found - self.first_set
            self.hits[place] += 1
            if self.hits[place] == self.length_of[place] and self.hits[place] > most:
                most, largest[0] = self.hits[place], found
        for j in range(count):
            found = self._set_on(lane, chosen[j])
            if found != NEW:
                self.hits[found - self.first_set] = 0
        if new > most:
            most, largest[0] = new, NEW
        return most

    cdef Py_ssize_t _move(
        self,
        Py_ssize_t lane,
        int64_t[::1] chosen,
        Py_ssize_t count,
        int64_t present,
        int64_t becomes,
    ) noexcept:
        """Put the transfers of a set on a lane, and move them to the front."""
        cdef Py_ssize_t j, taken = 0
        cdef int64_t i
        for j in range(count):
            i = chosen[j]
            if self._set_on(lane, i) != present:
                continue
            chosen[j], chosen[taken] = chosen[taken], i
            self.set_of[lane, self.hub[i], self.spoke[i]] = becomes
            self.lane[i] = lane
            taken += 1
        return taken

    cdef int64_t _set_on(self, Py_ssize_t lane, Py_ssize_t i) noexcept:
        """The set of this step that a lane has for the ranks of a transfer, or NEW."""
        cdef int64_t found = self.set_of[lane, self.hub[i], self.spoke[i]]
        return found if found >= self.first_set else NEW
