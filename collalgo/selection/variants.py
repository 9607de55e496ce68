"""The variants of algorithms that make sense on a machine: grids, segments, radices."""

from collections.abc import Iterable, Iterator, Sequence

from collalgo.algorithms import Algorithm
from collalgo.algorithms.radix import primes, square
from collalgo.algorithms.row import own_parameters
from collalgo.schedule import LANES
from collalgo.topology.rings import Ring

#: Into how many parts what goes down a tree or a chain is cut.
SEGMENTS = (4, 16, 64, 256)

#: The same for algorithms whose schedule depends on it, so that each is traced.
BLOCKS = (8, 32)

#: The same for grids of hosts on which all of a line swap at once: what goes inside
#: hosts overlaps with what goes between them.
OVERLAPPING = (4, 16)

#: How many ranks meet, or are told, in one step.
RADICES = (4, 8)

#: Beyond so many hosts not all need to talk to all at once.
MANY = 8


def variants(
    row: Algorithm,
    hosts: Sequence[int],
    cycles: Sequence[Sequence[int]],
    axes: tuple[int, ...] = (),
) -> Iterator[Algorithm]:
    """An algorithm with the parameters that a machine suggests.

    Parameters
    ----------
    row
        The algorithm.
    hosts
        How many ranks each host has.
    cycles
        Rings through the ranks of a host that share no link, for algorithms of several
        rings.
    axes
        The dimensions of the grid whose neighbours links join, if there is one.
    """
    known = own_parameters(row.function)
    given, size = dict(row.parameters), sum(hosts)
    several = row.hierarchical and len(hosts) > 1 and max(hosts) > 1
    where = {"hosts": tuple(hosts)} if len(hosts) > 1 and "hosts" in known else {}
    if "dims" in known and "segments" in given:
        yield from _along_links(row, size, axes)
    elif "dims" in known:
        alike = len(set(hosts)) == 1
        nested = _nested(row, hosts[0], len(hosts)) if several and alike else []
        yield from _on_grids(row, size, nested, axes)
    elif "segments" in given:
        yield from (row.with_parameters({**where, "segments": n}) for n in SEGMENTS)
    elif "blocks" in known:
        yield from (row.with_parameters({"blocks": n}) for n in BLOCKS)
    elif "radix" in given:
        yield from (
            row.with_parameters({"radix": k}) for k in RADICES if k <= size or k == 4
        )
    elif "cycles" in known and cycles:
        yield row.with_parameters({"cycles": tuple(map(tuple, cycles))})
    elif several and where:
        yield row.with_parameters(where)
    else:
        yield row


def _along_links(
    row: Algorithm, size: int, axes: tuple[int, ...]
) -> Iterator[Algorithm]:
    """Pipelines along the links of a grid, if there is one of as many dimensions."""
    for dims in _links(row, size, axes):
        own = {"dims": dims} if dims else {}
        yield from (row.with_parameters({**own, "segments": n}) for n in SEGMENTS)


def _on_grids(
    row: Algorithm,
    size: int,
    nested: list[tuple[int, ...]],
    axes: tuple[int, ...],
) -> Iterator[Algorithm]:
    """An algorithm on the grids of links, if they make one, and those of hosts."""
    if "axes" not in own_parameters(row.function):  # any number of dimensions will do
        grids = [*filter(None, [axes]), *(nested or [()])]
    else:
        grids = _links(row, size, axes) or nested or [()]
    for dims in grids:  # empty stands for what it takes by itself
        yield row.with_parameters({"dims": dims}) if dims else row
    if row.name == "bcube":
        yield from (
            row.with_parameters({"dims": dims, "segments": n})
            for dims in nested
            for n in OVERLAPPING
        )


def _links(row: Algorithm, size: int, axes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The grid of links, if it has the dimensions of an algorithm; empty if its own."""
    wanted = dict(row.parameters).get("axes", 2)
    if len(axes) != wanted:
        return []
    return [() if axes == square(size, wanted) else axes]


def _nested(row: Algorithm, each: int, hosts: int) -> list[tuple[int, ...]]:
    """Grids of the ranks of a host and the hosts.

    Where there are to be three dimensions the hosts are as square as can be, and so
    they may be where all of a dimension talk to all, if they are many.
    """
    plain = each, hosts
    outer, inner = square(hosts)
    cube = each, inner, outer
    if row.name == "blueconnect":
        return [(each, *primes(hosts))]
    if dict(row.parameters).get("axes") == 3:
        return [cube]
    if row.name == "bcube" and hosts > MANY and inner > 1:
        return [plain, cube]
    return [plain]


def twin_of(row: Algorithm, size: int, cycles: Sequence[Sequence[int]]) -> str | None:
    """The algorithm of which another is but a second name there, if there is one."""
    if row.name == "multi_ring" and len(cycles) == 1:
        return "ring"
    if row.name == "binary_blocks" and size & (size - 1) == 0:
        return "halving_doubling"
    return None


def without_twins(
    rows: Iterable[Algorithm], size: int, cycles: Sequence[Sequence[int]]
) -> list[Algorithm]:
    """Of algorithms that are the same there only one."""
    rows = list(rows)
    names = {row.name for row in rows}
    return [row for row in rows if twin_of(row, size, cycles) not in names]


def grids_of(row: Algorithm, each: int, hosts: int) -> Iterator[tuple[int, ...]]:
    """The grids of ranks that an algorithm may look the same along.

    Parameters
    ----------
    row
        The algorithm, with its parameters.
    each, hosts
        The ranks of a host, and the hosts.
    """
    given = dict(row.parameters)
    if cycles := given.get("cycles"):
        between = each // len(cycles)  # the beginnings of two of them
        if between * len(cycles) == each:
            yield between, len(cycles), hosts
    if dims := given.get("dims"):
        yield dims
    yield each, hosts


def cycles_of(
    found: Sequence[Ring], each: Sequence[str], hosts: int, nics: int
) -> list[list[int]]:
    """The cycles for several rings, as the numbers of the ranks of a host.

    On one host each cable of NVLink serves a ring each way. Between hosts a cycle
    begins elsewhere for each NIC, so that all NICs are ends of a ring. No more rings go
    the same way than there are lanes between two ranks.
    """
    number = {device: i for i, device in enumerate(each)}
    cycles = []
    for ring in found:
        there = [number[device] for device in ring.order]
        ways = [there, there[:1] + there[:0:-1]]
        cycles += [ways[i % 2] for i in range(min(ring.count, LANES))]
    if hosts == 1:
        return cycles
    first = cycles[0] if cycles else list(range(len(each)))
    starts = [i * len(each) // nics for i in range(nics)]
    return [first[start:] + first[:start] for start in starts]
