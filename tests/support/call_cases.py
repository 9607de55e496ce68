"""Random calls of the collectives, with the results by NumPy."""

import numpy as np
from hypothesis import strategies as st

REDUCING = ("allreduce", "reduce", "reduce_scatter", "scan", "exscan")


COLLECTIVES = (
    *(*REDUCING, "broadcast", "allgather", "alltoall", "gather", "scatter"),
    *("allgatherv", "alltoallv", "gatherv", "scatterv", "barrier"),
)


#: Around the borders of cache lines, of inline messages, slices and short cuts.
COUNTS = (0, 1, 2, 3, 5, 7, 8, 12, 16, 17, 33, 63, 64, 65, 511, 4099, 16387, 70001)


DTYPES = ("int64", "int8", "uint16", "float64", "complex128")


counts = st.one_of(st.sampled_from(COUNTS), st.integers(0, 3000))


def data(rank, count, dtype):
    return (np.arange(count) % 7 + 3 * (rank + 1)).astype(dtype)


def uneven(seed, size, most):
    """Counts of blocks, some of them 0."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, most + 1, size) * rng.integers(0, 2, size)


def reduced(op, arrays):
    ufunc = {"sum": np.add, "max": np.maximum, "min": np.minimum}[op]
    return ufunc.reduce(arrays, dtype=arrays[0].dtype)  # not in a wider one


class Case:
    """A call of one rank: its arguments, and what it must give."""

    def __init__(self, comm, call):
        self.name, count, dtype, op, self.seed, _ = call
        self.rank, self.size = comm.rank, comm.size
        self.root = self.seed % self.size
        self.dtype = np.dtype(dtype)
        self.op = op if self.dtype.kind != "c" else "sum"
        self.count = count if self.name in REDUCING else min(count, 9000 // self.size)
        self.at_root = self.rank == self.root

    def data(self, rank, count):
        return data(rank, count, self.dtype)

    @property
    def everyone(self):
        return [self.data(r, self.count) for r in range(self.size)]

    @property
    def shares(self):
        return uneven(self.seed, self.size, self.count)

    def blocks(self, counts):
        return [self.data(r, int(count)) for r, count in enumerate(counts)]

    def prepared(self):
        """Positional arguments, others, and what this rank must get, or None."""
        return getattr(self, self.name)()

    def allreduce(self):
        total = reduced(self.op, self.everyone)
        return (self.everyone[self.rank],), {"op": self.op}, total

    def reduce(self):
        args, more, total = self.allreduce()
        return args, {**more, "root": self.root}, total if self.at_root else None

    def prefix(self, last):
        first = self.everyone[:last]
        total = reduced(self.op, first) if first else None
        return (self.everyone[self.rank],), {"op": self.op}, total

    def scan(self):
        return self.prefix(self.rank + 1)

    def exscan(self):
        return self.prefix(self.rank)

    def reduce_scatter(self):
        shares = self.shares
        arrays = [self.data(r, int(shares.sum())) for r in range(self.size)]
        wanted = np.split(reduced(self.op, arrays), np.cumsum(shares))[self.rank]
        more = {"op": self.op, "counts": shares.tolist()}
        return (arrays[self.rank],), more, wanted

    def broadcast(self):
        return (self.everyone[self.rank], self.root), {}, self.everyone[self.root]

    def allgather(self):
        return (self.everyone[self.rank],), {}, np.stack(self.everyone)

    def gather(self):
        wanted = np.stack(self.everyone) if self.at_root else None
        return (self.everyone[self.rank], self.root), {}, wanted

    def alltoall(self):
        shape = self.size, self.count
        tables = [np.resize(self.data(r, 64), shape) for r in range(self.size)]
        return (tables[self.rank],), {}, np.stack([t[self.rank] for t in tables])

    def scatter(self):
        table = np.resize(self.data(self.root, 64), (self.size, self.count))
        given = table if self.at_root else np.zeros(self.count, self.dtype)
        return (given, self.root), {}, table[self.rank]

    def allgatherv(self):
        blocks = self.blocks(self.shares)
        given = blocks[self.rank], self.shares.tolist()
        return given, {}, np.concatenate(blocks)

    def gatherv(self):
        args, more, wanted = self.allgatherv()
        return (*args, self.root), more, wanted if self.at_root else None

    def scatterv(self):
        blocks = self.blocks(self.shares)
        mine = blocks[self.rank]
        given = np.concatenate(blocks) if self.at_root else np.zeros_like(mine)
        return (given, self.shares.tolist(), self.root), {}, mine

    def alltoallv(self):
        table = uneven(self.seed, self.size**2, self.count).reshape(self.size, -1)
        rows = [
            np.split(data_, np.cumsum(counts))
            for data_, counts in zip(self.blocks(table.sum(1)), table, strict=True)
        ]
        mine = self.blocks(table.sum(1))[self.rank]
        return (mine, table), {}, np.concatenate([row[self.rank] for row in rows])

    def barrier(self):
        return (), {}, None


def strided(array):
    """The same elements with gaps between them."""
    wide = np.zeros((*array.shape, 2), array.dtype)
    wide[..., 0] = array
    return wide[..., 0]


def make(comm, call):
    """Make a call in its way; a function that gives what it returned, and its due."""
    args, more, wanted = Case(comm, call).prepared()
    name, way = call[0], call[-1]
    if way == "strided" and args:
        args = strided(args[0]), *args[1:]
    if way == "background":
        return getattr(comm, f"{name}_async")(*args, **more).wait, wanted
    if way == "persistent" and hasattr(comm, f"persistent_{name}"):
        again = getattr(comm, f"persistent_{name}")(*args, **more)
        if name in REDUCING:  # which would sum the sum
            return again, wanted
        again()
        return again, wanted
    found = getattr(comm, name)(*args, **more)
    return lambda: found, wanted


def run(comm, sequence):
    """Make calls, each in the group that the last split before it has made."""
    world, pending = comm, []
    for call in sequence:
        if call[0] == "split":
            finish(pending)
            comm = split(world, comm, call[1])
            continue
        pending.append((call, *make(comm, call)))
        if call[-1] != "background":
            finish(pending)
    finish(pending)
    split(world, comm, 0)


def split(world, comm, seed):
    """Leave a group, for the world or for another one, in any order of the ranks."""
    if comm is not world:
        comm.close()
    parts, order = seed % 4, seed // 4
    if not parts:
        return world
    return world.split(world.rank % parts, key=(world.rank * (2 * order + 1)) % 64)


def finish(pending):
    """Check the results of all pending calls."""
    for made, found, wanted in pending:
        check(made, found(), wanted)
    pending.clear()


def check(call, found, wanted):
    if wanted is not None:
        np.testing.assert_array_equal(found, wanted, str(call))
