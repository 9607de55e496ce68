# cython: language_level=3, wraparound=False, boundscheck=False
# cython: freethreading_compatible=True
"""The root of the cheapest arborescence of a dense graph, from any vertex.

A vertex above all others has an edge to each, more expensive than all others together:
so the cheapest arborescence from it has one of them, to the root.
"""

from libc.math cimport INFINITY

import numpy as np

from collalgo._kernels.cost.arborescence cimport Arborescence


cdef class AnyRoot:
    """Memory for the root of the cheapest arborescence of a dense graph.

    Parameters
    ----------
    size
        The number of vertices.
    """

    def __init__(self, Py_ssize_t size):
        self.size = size
        self.cost = np.full((size + 1, size + 1), INFINITY)
        self.parents = np.empty(size + 1, np.int32)
        self.arborescence = Arborescence(size + 1)

    cdef Py_ssize_t of(self, const double[:, ::1] cost) noexcept:
        """The root; its vertices are reachable from it by edges of finite cost."""
        cdef Py_ssize_t u, v, root = 0
        cdef double great = 1
        for u in range(self.size):
            for v in range(self.size):
                self.cost[u, v] = cost[u, v]
                if cost[u, v] < INFINITY:
                    great += cost[u, v]
        for v in range(self.size):
            self.cost[self.size, v] = great
        self.arborescence.find(self.cost, self.size, self.parents)
        while self.parents[root] != self.size:
            root += 1
        return root
