# cython: language_level=3, wraparound=False, boundscheck=False
# cython: freethreading_compatible=True
"""The cheapest arborescence of a dense graph, in time quadratic in the vertices.

Edmonds' algorithm in the form of Gabow, Galil, Spencer and Tarjan (Combinatorica, 1986):
a path grows backwards along the cheapest edge into its beginning; a cycle at its
beginning is contracted; at the end all is one node, which is opened again from the root.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

import numpy as np


cdef class Arborescence:
    """Memory for the cheapest arborescence of a dense graph.

    Parameters
    ----------
    size
        The number of vertices.
    """

    def __init__(self, Py_ssize_t size):
        nodes = 2 * size
        self.size = size
        self.enter = np.empty((nodes, size))  # the price of entering a node from a vertex
        self.entered = np.empty((nodes, size), np.int32)  # the vertex entered
        self.best = np.empty(nodes)
        self.source = np.empty(nodes, np.int32)
        self.into = np.empty(nodes, np.int32)
        self.group = np.empty(size, np.int32)  # the outermost node of each vertex
        self.above = np.empty(nodes, np.int32)
        self.first_part = np.empty(nodes, np.int32)
        self.next_part = np.empty(nodes, np.int32)
        self.path = np.empty(nodes, np.int32)
        self.waiting = np.empty(nodes, np.int32)
        self.on_path = np.empty(nodes, np.uint8)

    def cheapest(self, const double[:, ::1] cost, Py_ssize_t root):
        """The parent of each vertex in the cheapest arborescence, ROOT for the root.

        All vertices are reachable from the root by edges of finite cost.
        """
        parents = np.empty(self.size, np.int32)
        self.find(cost, root, parents)
        return parents

    def nearest(self, const double[:, ::1] cost, Py_ssize_t root):
        """The vertex before each one on the cheapest path from the root, or ROOT."""
        self.search(cost, root)
        parents = np.array(self.source[:self.size])
        parents[root] = ROOT
        return parents

    cdef void find(
        self, const double[:, ::1] cost, Py_ssize_t root, int32_t[::1] parents
    ) noexcept:
        """Find the parents of the cheapest arborescence; all vertices are reachable."""
        cdef Py_ssize_t count, node, vertex
        self._reset(cost, root)
        self._contract()
        count = self._open(root, 0)
        while count:
            count -= 1
            node = self.waiting[count]
            vertex = self.into[node]
            self.source[vertex] = self.source[node]
            count = self._open(vertex, count)
        for vertex in range(self.size):
            parents[vertex] = self.source[vertex]
        parents[root] = ROOT

    cdef void _reset(self, const double[:, ::1] cost, Py_ssize_t root) noexcept:
        """Make each vertex a node; every vertex has an expensive edge to the root."""
        cdef Py_ssize_t u, v
        cdef double great = 1
        for v in range(self.size):
            for u in range(self.size):
                if cost[u, v] < INFINITY:
                    great += cost[u, v]
        for v in range(self.size):
            for u in range(self.size):
                self.enter[v, u] = cost[u, v] if v != root else great
                self.entered[v, u] = v
            self.enter[v, v] = INFINITY
            self.group[v] = v
        for v in range(2 * self.size):
            self.above[v] = self.first_part[v] = self.next_part[v] = -1
            self.on_path[v] = False
        self.used = self.size

    cdef Py_ssize_t _contract(self) noexcept:
        """Contract cycles until one node is left."""
        cdef Py_ssize_t length = 1, node = 0, before, i
        self.path[0], self.on_path[0] = 0, True
        while True:
            before = self._cheapest_entry(node)
            if before < 0:
                return node
            if not self.on_path[before]:
                self.path[length], self.on_path[before] = before, True
                length, node = length + 1, before
                continue
            i = length - 1
            while self.path[i] != before:
                i -= 1
            node = self._merge(length, i)
            length = i + 1
            self.path[i], self.on_path[node] = node, True

    cdef Py_ssize_t _cheapest_entry(self, Py_ssize_t node) noexcept:
        """Choose the cheapest edge into a node; return its source, or -1."""
        cdef Py_ssize_t u, chosen = -1
        cdef double least = INFINITY
        for u in range(self.size):
            if self.enter[node, u] < least:
                least, chosen = self.enter[node, u], u
        if chosen < 0:
            return -1
        self.best[node], self.source[node] = least, chosen
        self.into[node] = self.entered[node, chosen]
        return self.group[chosen]

    cdef Py_ssize_t _merge(self, Py_ssize_t length, Py_ssize_t start) noexcept:
        """Contract the end of the path to a node."""
        cdef Py_ssize_t node = self.used, i, u, part
        self.used += 1
        for u in range(self.size):
            self.enter[node, u] = INFINITY
        for i in range(start, length):
            part = self.path[i]
            self.above[part], self.on_path[part] = node, False
            self.next_part[part] = self.first_part[node]
            self.first_part[node] = part
            self._enter_from(node, part, self.best[part])
        for u in range(self.size):
            if self.above[self.group[u]] == node:
                self.group[u] = node
            if self.group[u] == node:
                self.enter[node, u] = INFINITY
        return node

    cdef void _enter_from(
        self, Py_ssize_t node, Py_ssize_t part, double paid
    ) noexcept:
        """Redirect edges into a part of a cycle to its node, less the price already paid."""
        cdef Py_ssize_t u
        for u in range(self.size):
            if self.enter[part, u] - paid < self.enter[node, u]:
                self.enter[node, u] = self.enter[part, u] - paid
                self.entered[node, u] = self.entered[part, u]

    cdef Py_ssize_t _open(self, Py_ssize_t vertex, Py_ssize_t count) noexcept:
        """Open all nodes around a vertex; their other parts wait to be entered."""
        cdef Py_ssize_t inner = vertex, outer = self.above[vertex], part
        while outer >= 0:
            part = self.first_part[outer]
            while part >= 0:
                self.above[part] = -1
                if part != inner and part >= self.size:
                    self.waiting[count] = part
                    count += 1
                part = self.next_part[part]
            inner, outer = outer, self.above[outer]
        return count

    cdef void search(self, const double[:, ::1] cost, Py_ssize_t root) noexcept:
        """Find the cheapest paths from a root to all vertices by Dijkstra's algorithm."""
        cdef Py_ssize_t u, v, last = root
        for v in range(self.size):
            self.best[v], self.source[v], self.on_path[v] = INFINITY, OUTSIDE, False
        self.best[root] = 0
        while last >= 0:
            self.on_path[last] = True
            for v in range(self.size):
                if self.best[last] + cost[last, v] < self.best[v]:
                    self.best[v], self.source[v] = self.best[last] + cost[last, v], last
            last = -1
            for u in range(self.size):
                if not self.on_path[u] and (last < 0 or self.best[u] < self.best[last]):
                    last = u

    cdef void path_to(
        self, Py_ssize_t root, Py_ssize_t end, int32_t[::1] parents
    ) noexcept:
        """The path to a vertex that a search has found; others are outside."""
        cdef Py_ssize_t v, last = end
        for v in range(self.size):
            parents[v] = OUTSIDE
        while last != root:
            parents[last] = self.source[last]
            last = self.source[last]
        parents[root] = ROOT
