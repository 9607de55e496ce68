"""What every collective has to give, by NumPy, and how to call it on a rank."""

from contextlib import suppress

import numpy as np

from collalgo.engine.ufuncs import LOGICAL, UFUNCS

#: What an array holds before the library writes into it.
JUNK = 7


def dtype_of(name):
    """The dtype of a name, which may be one of ``ml_dtypes``."""
    with suppress(TypeError):
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


def vectors(size, count, dtype, seed=0, below=3):
    """The input of each rank: small whole numbers, so that sums are exact."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, below, count).astype(dtype) for _ in range(size)]


def reduced(inputs, op):
    """The reduction of the inputs of all ranks."""
    dtype = inputs[0].dtype
    small = dtype.kind not in "biuc" and dtype.itemsize < 4
    wide = np.dtype(np.float32) if small else dtype
    if op == "avg" and dtype.kind in "iu":
        wide = np.dtype(f"{dtype.kind}8")
    total = inputs[0].astype(wide)
    for other in inputs[1:]:
        total = UFUNCS[op](total, other.astype(wide), dtype=None).astype(wide)
    if op in LOGICAL:
        total = (total != 0).astype(wide)
    if op == "avg":
        size = len(inputs)
        if dtype.kind in "iu":
            total = total // size
        else:  # part by part: NumPy divides complex numbers in another way
            part = np.dtype(f"f{wide.itemsize // 2}") if dtype.kind == "c" else wide
            total = (total.view(part) / part.type(size)).view(wide)
    return total.astype(dtype)


def check(comm, row, inputs, op="sum", root=0):
    """Call a collective by one algorithm and compare with the oracle."""
    mine = inputs[comm.rank].copy()
    getattr(Checks, row.collective)(comm, row.name, inputs, mine, op, root)


def same(found, expected):
    """See that two arrays are alike; NumPy is slow to, but says what differs."""
    if (
        type(found) is type(expected) is np.ndarray
        and (found.dtype, found.shape) == (expected.dtype, expected.shape)
        and np.array_equal(found, expected)
    ):
        return
    np.testing.assert_array_equal(found, expected, strict=True)


class Checks:
    """One function for each collective, in place and with ``out=``."""

    @staticmethod
    def allreduce(comm, name, inputs, mine, op, _):
        out = np.full_like(mine, JUNK)
        assert comm.allreduce(mine, op, out=out, algorithm=name) is out
        same(mine, inputs[comm.rank])
        same(out, reduced(inputs, op))
        assert comm.allreduce(mine, op, algorithm=name) is mine
        same(mine, out)

    @staticmethod
    def broadcast(comm, name, inputs, mine, _, root):
        assert comm.broadcast(mine, root, algorithm=name) is mine
        same(mine, inputs[root])

    @staticmethod
    def reduce(comm, name, inputs, mine, op, root):
        out = np.full_like(mine, JUNK)
        result = comm.reduce(mine, op, root, out=out, algorithm=name)
        same(mine, inputs[comm.rank])
        assert result is (out if comm.rank == root else None)
        result = comm.reduce(mine, op, root, algorithm=name)
        if comm.rank == root:
            same(out, reduced(inputs, op))
            same(mine, out)
        else:
            assert result is None
            same(mine, inputs[comm.rank])
            same(out, np.full_like(mine, JUNK))

    @staticmethod
    def allgather(comm, name, inputs, mine, *_):
        same(comm.allgather(mine, algorithm=name), np.stack(inputs))
        out = np.full((comm.size, *mine.shape), JUNK, mine.dtype)
        out[comm.rank] = mine
        assert comm.allgather(out[comm.rank], out=out, algorithm=name) is out
        same(out, np.stack(inputs))
        pieces = [one[: (rank * 7) % (len(one) + 1)] for rank, one in enumerate(inputs)]
        joined = comm.allgatherv(pieces[comm.rank].copy(), algorithm=name)
        same(joined, np.concatenate(pieces))

    @staticmethod
    def reduce_scatter(comm, name, inputs, mine, op, _):
        blocks = np.array_split(reduced(inputs, op), comm.size)
        same(comm.reduce_scatter(mine, op, algorithm=name), blocks[comm.rank])
        same(mine, inputs[comm.rank])
        counts = [0] * comm.size
        counts[comm.size // 2] = len(mine)  # one rank gets everything
        result = comm.reduce_scatter(mine, op, counts, algorithm=name)
        same(result, reduced(inputs, op)[: counts[comm.rank]])

    @staticmethod
    def alltoall(comm, name, inputs, mine, *_):
        size, rank = comm.size, comm.rank
        blocks = [np.stack([one + target for target in range(size)]) for one in inputs]
        expected = np.stack([row[rank] for row in blocks])
        same(comm.alltoall(blocks[rank], algorithm=name), expected)
        out = np.full_like(expected, JUNK)
        assert comm.alltoall(blocks[rank], out=out, algorithm=name) is out
        same(out, expected)
        counts = [
            [(3 * i + 5 * j) % (len(mine) + 1) for j in range(size)]
            for i in range(size)
        ]
        pieces = [
            [one[: counts[i][j]] + j for j in range(size)]
            for i, one in enumerate(inputs)
        ]
        joined = np.concatenate(pieces[rank])
        expected = np.concatenate([row[rank] for row in pieces])
        same(comm.alltoallv(joined, counts[rank], algorithm=name), expected)
        same(comm.alltoallv(joined, counts, algorithm=name), expected)

    @staticmethod
    def gather(comm, name, inputs, mine, _, root):
        expected = np.stack(inputs)
        result = comm.gather(mine, root, algorithm=name)
        pieces = [one[: (rank * 7) % (len(one) + 1)] for rank, one in enumerate(inputs)]
        joined = comm.gatherv(pieces[comm.rank].copy(), root=root, algorithm=name)
        out = np.full_like(expected, JUNK)
        out[comm.rank] = mine
        comm.gather(out[comm.rank], root, out=out, algorithm=name)
        if comm.rank == root:
            same(result, expected)
            same(out, expected)
            same(joined, np.concatenate(pieces))
        else:
            assert result is None
            assert joined is None
            same(mine, inputs[comm.rank])

    @staticmethod
    def scatter(comm, name, inputs, mine, _, root):
        at_root, rank = comm.rank == root, comm.rank
        source = np.stack(inputs) if at_root else np.full_like(mine, JUNK)
        same(comm.scatter(source, root, algorithm=name), inputs[rank])
        same(source, np.stack(inputs) if at_root else inputs[rank])
        out = np.full_like(mine, JUNK)
        assert comm.scatter(source, root, out=out, algorithm=name) is out
        same(out, inputs[rank])
        pieces = [one[: (i * 7) % (len(one) + 1)] for i, one in enumerate(inputs)]
        source = np.concatenate(pieces) if at_root else np.full_like(pieces[rank], JUNK)
        same(comm.scatterv(source, root=root, algorithm=name), pieces[rank])

    @staticmethod
    def scan(comm, name, inputs, mine, op, _):
        out = np.full_like(mine, JUNK)
        assert comm.scan(mine, op, out=out, algorithm=name) is out
        same(mine, inputs[comm.rank])
        same(out, reduced(inputs[: comm.rank + 1], op))
        assert comm.scan(mine, op, algorithm=name) is mine
        same(mine, out)

    @staticmethod
    def exscan(comm, name, inputs, mine, op, _):
        out = np.full_like(mine, JUNK)
        assert comm.exscan(mine, op, out=out, algorithm=name) is out
        same(mine, inputs[comm.rank])
        before = inputs[: comm.rank]
        same(out, reduced(before, op) if before else np.full_like(mine, JUNK))
        assert comm.exscan(mine, op, algorithm=name) is mine
        same(mine, out if before else inputs[0])

    @staticmethod
    def barrier(comm, name, *_):
        comm.barrier(algorithm=name)
