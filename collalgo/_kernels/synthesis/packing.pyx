# cython: language_level=3, wraparound=False, boundscheck=False, cdivision=True
# cython: freethreading_compatible=True
"""Pack trees over links: each tree in turn is replaced by the cheapest one.

The price of a link is a high power of its load over its capacity, so that the sum over
the links is nearly the largest load. That sum is convex, so trees that are cheapest at the
prices of their own loads are nearly optimal. All arithmetic consists of additions, products
and quotients in a fixed order: every rank computes the same trees.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t

from collalgo._kernels.cost.any_root cimport AnyRoot
from collalgo._kernels.cost.arborescence cimport OUTSIDE, Arborescence

import numpy as np

ctypedef const int64_t[::1] ints

#: With more ranks several paths from one root are found at the same prices, one for each
#: of PAIRS_IN_BATCH pairs of ranks: to price all pairs takes most of the time. Too many
#: would crowd on the same links.
cdef Py_ssize_t ONE_BY_ONE = 32, PAIRS_IN_BATCH = 512, MOST_IN_BATCH = 32


cdef class Packing:
    """Trees and their loads.

    Parameters
    ----------
    size
        The number of ranks.
    first, links, parts
        The directed links from each rank to each, ``source * size + target``: the index
        of the first of them, and the part of a message on each. ``first`` has one more
        entry at its end.
    usable
        The pairs that may be edges of trees.
    capacity
        The capacity of each directed link.
    roots, ends
        The root of each tree, or -1 for any, and its only destination, or -1 for a tree
        to all ranks.
    both_ways
        Whether a tree is used in both directions, to reduce and to broadcast.
    weights
        The amount of data of each tree; by default 1.
    kinds
        The pair that represents each pair; by default itself.

    Attributes
    ----------
    parents : ndarray of int32, one row for each tree
        The parent of each rank, -1 for the root, or -2 for a rank outside.
    load : ndarray
        The load of each link over its capacity.
    """

    cdef readonly Py_ssize_t size
    cdef ints first, links
    cdef const double[::1] parts
    cdef const unsigned char[::1] usable
    cdef ints kinds
    cdef int64_t[::1] uses
    cdef double[::1] per_load, _load, price
    cdef double[:, ::1] cost
    cdef int32_t[:, ::1] _parents
    cdef ints roots, ends
    cdef const double[::1] weights
    cdef bint both_ways
    cdef Py_ssize_t squarings, batch
    cdef double scale, hop, fresh, mean, seen
    cdef int32_t[::1] order, depth
    cdef Arborescence arborescence
    cdef AnyRoot any_root

    def __init__(
        self,
        Py_ssize_t size,
        ints first,
        ints links,
        const double[::1] parts,
        const unsigned char[::1] usable,
        const double[::1] capacity,
        ints roots,
        ints ends,
        bint both_ways=False,
        weights=None,
        kinds=None,
    ):
        self.size = size
        self.first, self.links, self.parts = first, links, parts
        self.usable, self.roots, self.ends = usable, roots, ends
        self.both_ways = both_ways
        self.batch = min(size * size // PAIRS_IN_BATCH, MOST_IN_BATCH)
        if size <= ONE_BY_ONE:
            self.batch = 1
        self.weights = np.ones(len(roots)) if weights is None else weights
        self.kinds = np.arange(size * size) if kinds is None else kinds
        self.uses = np.zeros(size * size, np.int64)
        self.per_load = 1 / np.asarray(capacity)
        self._load = np.zeros(len(capacity))
        self.price = np.zeros(len(capacity))
        self.cost = np.zeros((size, size))
        self.arborescence = Arborescence(size)
        if np.asarray(roots).min(initial=0) < 0:
            self.any_root = AnyRoot(size)
        self.order, self.depth = np.empty((2, size), np.int32)
        self._parents = np.full((len(roots), size), OUTSIDE, np.int32)

    @property
    def parents(self):
        return np.asarray(self._parents)

    @property
    def load(self):
        return np.asarray(self._load)

    def sweep(self, Py_ssize_t squarings, double hop=0, double fresh=0):
        """Replace each tree by the cheapest one, given all others.

        Parameters
        ----------
        squarings
            The price of a link is its load to the power of 2 to this number.
        hop
            What it is worth that a rank is nearer to the root by one edge, as a part of
            the mean price of an edge: of similar trees the less deep is taken.
        fresh
            The price of an edge between ranks that no other tree has, besides that of its
            links, as a part of the mean price of an edge: so ranks have few peers.

        Returns
        -------
        float
            The largest load.
        """
        cdef Py_ssize_t tree = 0, link, end
        self.squarings = squarings
        self.seen = self.mean = 0
        self.scale = np.asarray(self._load).max() or np.asarray(self.per_load).max()
        for link in range(self._load.shape[0]):
            self._set_price(link)
        while tree < self.roots.shape[0]:
            end = self._end_of_batch(tree)
            self._add_all(tree, end, -1)
            self.hop, self.fresh = hop * self.mean, fresh * self.mean
            self._find_costs()
            self._find(tree, end)
            self._add_all(tree, end, 1)
            tree = end
        return np.asarray(self._load).max()

    cdef Py_ssize_t _end_of_batch(self, Py_ssize_t tree) noexcept:
        """The end of the paths from one root that are found at the same prices."""
        cdef Py_ssize_t end = tree + 1, most = tree + self.batch
        while self.ends[tree] >= 0 and end < min(most, self.roots.shape[0]):
            if self.roots[end] != self.roots[tree]:
                break
            end += 1
        return end

    cdef void _add_all(
        self, Py_ssize_t first, Py_ssize_t end, double times
    ) noexcept:
        """Add the loads of several trees, or take them away."""
        cdef Py_ssize_t tree
        for tree in range(first, end):
            self._add(tree, times)

    cdef void _find(self, Py_ssize_t first, Py_ssize_t end) noexcept:
        """Find the cheapest tree from a root, or the cheapest paths to some ends."""
        cdef Py_ssize_t tree, root = self.roots[first]
        if self.ends[first] < 0:
            if root < 0:
                root = self.any_root.of(self.cost)
            self.arborescence.find(self.cost, root, self._parents[first])
            self._flatten(root, self._parents[first])
            self._average(self._parents[first])
            return
        self.arborescence.search(self.cost, root)
        for tree in range(first, end):
            self.arborescence.path_to(root, self.ends[tree], self._parents[tree])
            self._average(self._parents[tree])

    cdef void _average(self, int32_t[::1] parents) noexcept:
        """Include a tree in the mean price of an edge, or of a path, of recent trees."""
        cdef Py_ssize_t v, edges = 0
        cdef double price = 0, count = self.roots.shape[0]
        for v in range(self.size):
            if parents[v] >= 0:
                price += self.cost[parents[v], v]
                edges += 1
        self.seen = min(self.seen + 1, count / 4)
        if self.ends[0] < 0:
            price /= max(edges, 1)
        else:
            price -= edges * self.hop
        self.mean += (price - self.mean) / max(self.seen, 1)

    cdef void _flatten(self, Py_ssize_t root, int32_t[::1] parents) noexcept:
        """Give ranks parents nearer to the root where that costs little.

        A parent of lower depth is not a descendant, so the result is still a tree.
        """
        cdef Py_ssize_t u, v, chosen, place, count = self._by_depth(root, parents)
        cdef double price, best
        if self.hop == 0:
            return
        for place in range(1, count):
            v = self.order[place]
            chosen = parents[v]
            self.depth[v] = self.depth[chosen] + 1
            best = self.cost[chosen, v] + self.hop * self.depth[v]
            for u in range(self.size):
                if self.depth[u] + 1 < self.depth[v]:
                    price = self.cost[u, v] + self.hop * (self.depth[u] + 1)
                    if price < best:
                        best, chosen = price, u
            parents[v], self.depth[v] = chosen, self.depth[chosen] + 1

    cdef Py_ssize_t _by_depth(self, Py_ssize_t root, int32_t[::1] parents) noexcept:
        """Order the ranks of a tree by their depth; their number."""
        cdef Py_ssize_t u, v, place = 0, count = 1
        self.order[0], self.depth[root] = root, 0
        while place < count:
            u = self.order[place]
            for v in range(self.size):
                if parents[v] == u:
                    self.depth[v] = self.depth[u] + 1
                    self.order[count] = v
                    count += 1
            place += 1
        return count

    cdef void _set_price(self, Py_ssize_t link) noexcept:
        """Price a link for half a tree more than it carries."""
        cdef double price = (self._load[link] + self.per_load[link] / 2) / self.scale
        cdef Py_ssize_t _i
        for _i in range(self.squarings):
            price *= price
        self.price[link] = price * self.per_load[link] + 1e-12 * self.per_load[link]

    cdef void _add(self, Py_ssize_t tree, double times) noexcept:
        """Add the loads of a tree, or take them away."""
        cdef Py_ssize_t v, u
        cdef double amount = times * self.weights[tree]
        for v in range(self.size):
            u = self._parents[tree, v]
            if u >= 0:
                self._add_pair(u * self.size + v, amount)
                self.uses[self.kinds[u * self.size + v]] += 1 if times > 0 else -1
                if self.both_ways:
                    self._add_pair(v * self.size + u, amount)

    cdef void _add_pair(self, Py_ssize_t pair, double amount) noexcept:
        cdef Py_ssize_t i, link
        for i in range(self.first[pair], self.first[pair + 1]):
            link = self.links[i]
            self._load[link] += amount * self.parts[i] * self.per_load[link]
            self._set_price(link)

    cdef void _find_costs(self) noexcept:
        """The price of each edge of a tree; on a path also that of a step."""
        cdef Py_ssize_t u, v
        for u in range(self.size):
            for v in range(self.size):
                if not self.usable[u * self.size + v]:
                    self.cost[u, v] = INFINITY
                    continue
                self.cost[u, v] = self._price_of(u * self.size + v)
                if self.both_ways:
                    self.cost[u, v] += self._price_of(v * self.size + u)
                if self.fresh and not self._is_used(u, v):
                    self.cost[u, v] += self.fresh
                if self.ends[0] >= 0:
                    self.cost[u, v] += self.hop

    cdef bint _is_used(self, Py_ssize_t u, Py_ssize_t v) noexcept:
        """Whether a tree has an edge, in either direction if that makes no difference."""
        if self.uses[self.kinds[u * self.size + v]]:
            return True
        return self.both_ways and self.uses[self.kinds[v * self.size + u]]

    cdef double _price_of(self, Py_ssize_t pair) noexcept:
        cdef Py_ssize_t i
        cdef double price = 0
        for i in range(self.first[pair], self.first[pair + 1]):
            price += self.parts[i] * self.price[self.links[i]]
        return price
