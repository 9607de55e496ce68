"""Measure the cells of a sweep, by our algorithms and by peers."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
from collalgo.bench.cells import MUTUAL, Bench, Cell, dtype_of
from collalgo.bench.limits import Floor
from collalgo.bench.mpi_world import mpi_world
from collalgo.bench.new_sizes import first_calls, race_first_calls
from collalgo.bench.peers.contest import (
    OURS,
    Contestant,
    Times,
    contestants as start_contestants,
    race_cell,
)
from collalgo.bench.peers.environments import Peer
from collalgo.bench.peers.worker import mpi_call, writer
from collalgo.bench.records import ALSO_CHOSEN, AS_ASKED, Record, record
from collalgo.bench.sweep import Sweep
from collalgo.bench.timing import promising, race, row_of

from collalgo import Communicator, Selection, spawn, verify
from collalgo.algorithms.catalogue import Algorithm, candidates
from collalgo.cost.host_profile import HostProfile
from collalgo.errors import AlgorithmNotApplicable
from collalgo.integrations.algorithm_files import load_algorithms
from collalgo.selection.choice import select
from collalgo.selection.decide import PRICE
from collalgo.selection.on_host import HostPricer
from collalgo.selection.prices import ROUGHLY

#: The bytes from which on a call takes long enough to be timed alone.
LARGE = 4 << 20

#: The seconds to time a call further after its trials.
TRIED = 0.2

#: Called with each cell before its measurement.
Progress = Callable[[Cell], None]


def measure(
    comm: Communicator, sweep: Sweep, progress: Progress | None = None
) -> list[Record]:
    """Measure a sweep on all ranks; the rows are the same on each."""
    for name in sweep.files:
        load_algorithms(name)
    records: list[Record] = []
    # Between hosts links limit the times, not memory.
    one_host = len(set(comm.hosts)) == 1
    floor = Floor(comm, sweep.cells(comm.size)) if one_host else None
    for cell in sweep.cells(comm.size):
        if progress is not None:
            progress(cell)
        records += measure_cell(comm, cell, sweep, floor)
    return records


def measure_cell(
    comm: Communicator, cell: Cell, sweep: Sweep, floor: Floor | None
) -> list[Record]:
    """Measure one cell by all its contestants, side by side."""
    bench = Bench(cell, comm)
    chosen = comm.select(cell.collective, bench.nbytes)
    named = contestants(cell, bench.nbytes, sweep.algorithms, comm.select)
    names: list[str | None] = [*named] or [None]  # as a user calls it
    found = list(named.values()) or [chosen]
    wrong = [bench.wrong(name) if sweep.check else None for name in names]
    calls = [bench.call(name) for name in names]
    calls += mpi_calls(bench) if sweep.against_mpi else []
    selected = [one.algorithm == chosen.algorithm for one in found]
    in_a_row, times = _times(bench, calls, sweep, selected)
    row = partial(record, cell, comm.size, in_a_row=in_a_row)
    records: list[Record] = []
    for name, one, seconds, elements in zip(names, found, times, wrong, strict=False):
        reason = reason_of(one, chosen, sweep)
        more = particulars(cell, one, floor)
        if sweep.fresh_sizes:
            call = partial(Bench.call, algorithm=name)
            more["new_size"] = first_calls(comm, cell, call)
        records.append(row(seconds, wrong=elements, reason=reason, **more))
    return records + _of_mpi(comm, cell, sweep, times[len(found) :], row)


def _of_mpi(
    comm: Communicator,
    cell: Cell,
    sweep: Sweep,
    times: Sequence[list[Times]],
    row: Callable[..., Record],
) -> list[Record]:
    """The records of MPI in a cell, if it was measured."""
    if not times:
        return []
    new_size = None
    if sweep.fresh_sizes:
        new_size = first_calls(comm, cell, lambda one: next(iter(mpi_calls(one)), None))
    return [row(seconds, contestant="mpi", new_size=new_size) for seconds in times]


def _times(
    bench: Bench,
    calls: Sequence[Callable[[], object]],
    sweep: Sweep,
    selected: Sequence[bool],
) -> tuple[int, list[list[Times]]]:
    """The number of calls in a row, and for each call the times of each cycle.

    After trials only fast calls and the selected ones are timed further.
    """
    spec = {**bench.cell._asdict(), "fresh": sweep.fresh}
    write = writer(spec, bench.comm.rank, bench.source)
    in_a_row = _row(bench, calls, sweep)
    times: list[list[Times]] = [[] for _ in calls]
    left, iterations = [*range(len(calls))], sweep.iterations
    timed = partial(
        race, bench.comm, warmup=sweep.warmup, before=write, in_a_row=in_a_row
    )
    if sweep.trials:
        tried = timed(calls, sweep.trials)
        left = promising(tried, selected)
        one = float(np.median(tried[left])) * in_a_row * sweep.cycles
        iterations = int(np.clip(TRIED / one, sweep.trials, iterations))
        times = [[] if n in left else [one] for n, one in enumerate(tried)]
    for _ in range(sweep.cycles):
        found = timed([calls[number] for number in left], iterations)
        for number, seconds in zip(left, found, strict=True):
            times[number].append(seconds)
    return in_a_row, times


def _row(bench: Bench, calls: Sequence[Callable[[], object]], sweep: Sweep) -> int:
    """The number of calls that are timed together."""
    long_rows = sweep.long_rows and sweep.in_a_row is None
    if long_rows and bench.cell.collective in MUTUAL and bench.nbytes < LARGE:
        return row_of(bench.comm, calls)
    return sweep.row(bench.cell)


def measure_against(
    peers: Sequence[Peer], ranks: int, sweep: Sweep, progress: Progress | None = None
) -> tuple[list[Record], dict[str, str]]:
    """Measure a sweep alternately with ours and the peers: the rows, and versions.

    Each cycle visits all cells, so that a temporary disturbance affects only some
    measurements of a cell.
    """
    if len(sweep.algorithms) > 1 or sweep.algorithms == ("all",):
        raise ValueError("peers can be compared with one algorithm; name one, or none")
    if sweep.iterations is not None:
        raise ValueError("peers are timed in bursts of equal time; leave out --calls")
    floor = spawn(partial(Floor, cells=list(sweep.cells(ranks))), ranks)[0]
    with start_contestants(peers, ranks) as field:
        times = _race(field, sweep, progress)
        cells = sweep.cells(ranks) if sweep.fresh_sizes else ()
        new_sizes = race_first_calls(field, cells, sweep.algorithm, fresh=sweep.fresh)
        versions = {one.name: one.version for one in field}
        profile = HostProfile(**next(one.profile for one in field if one.profile))
    pricer = HostPricer(ranks, profile)
    records = []
    for (cell, contestant), bursts in times.items():
        new_size = new_sizes.get((cell, contestant))
        more: dict[str, Any] = {"in_a_row": sweep.row(cell), "new_size": new_size}
        if contestant == OURS:
            more |= _columns_of_ours(cell, sweep, pricer, floor)
        records.append(record(cell, ranks, bursts, contestant=contestant, **more))
    return records, versions


def _race(
    field: Sequence[Contestant], sweep: Sweep, progress: Progress | None
) -> dict[tuple[Cell, str], list[Times]]:
    """The times of each contestant for each cell, an array for each burst."""
    times: dict[tuple[Cell, str], list[Times]] = defaultdict(list)
    for cycle, cell in product(range(sweep.cycles), sweep.cells(field[0].ranks)):
        if progress is not None:
            progress(cell)
        found = race_cell(
            field,
            cell,
            sweep.algorithm,
            warmup=sweep.warmup,
            check=sweep.check and cycle == 0,
            fresh=sweep.fresh,
            in_a_row=sweep.row(cell),
        )
        for contestant, bursts in found.items():
            times[cell, contestant] += bursts
    return times


def _columns_of_ours(
    cell: Cell, sweep: Sweep, pricer: HostPricer, floor: Floor
) -> dict[str, Any]:
    """The columns that only our row of a cell has, compared with peers."""
    name = sweep.algorithm
    nbytes = cell.counts(pricer.size)[1] * dtype_of(cell.dtype).itemsize
    chosen = select(cell.collective, nbytes, topology=pricer, algorithm=name)
    return {
        **particulars(cell, chosen, floor),
        "reason": AS_ASKED if name else why(chosen),
        "wrong": 0 if sweep.check else None,  # a wrong result ends the race
    }


def reason_of(one: Selection, chosen: Selection, sweep: Sweep) -> str:
    """The reason for measuring an algorithm: its name was given, or it is chosen."""
    if one.algorithm != chosen.algorithm:
        return AS_ASKED
    return ALSO_CHOSEN if sweep.names_algorithms else why(chosen)


def why(chosen: Selection) -> str:
    """Who has decided for an algorithm: the price with its reason, or what else."""
    return chosen.reason if chosen.decider == PRICE else f"by {chosen.decider}"


def particulars(cell: Cell, decided: Selection, floor: Floor | None) -> dict[str, Any]:
    """The columns of an algorithm that need no measurement.

    Without a floor of the memory of one host, it is the bound of the topology.
    """
    limit = decided.bound_seconds if floor is None else floor.seconds(cell)
    return {
        "algorithm": decided.algorithm,
        "predicted": decided.seconds,
        "rough": decided.choice.caveat == ROUGHLY,
        "sent": sent(decided.row, cell, decided.size, decided.nbytes),
        "floor": limit,
    }


def contestants(
    cell: Cell, nbytes: int, names: Sequence[str], decide: Callable[..., Selection]
) -> dict[str, Selection]:
    """The selections to compare, by algorithm name.

    Parameters
    ----------
    cell
        The cell.
    nbytes
        The bytes of its buffer.
    names
        The ``algorithms`` of a sweep.
    decide
        Selects the variant of a name, such as ``comm.select``.
    """
    if tuple(names) == ("all",):
        able = {one.row.base_name for one in decide(cell.collective, nbytes).able}
        names = [row.name for row in candidates(cell.collective) if row.name in able]
    found = {}
    for name in names:
        try:
            found[name] = decide(cell.collective, nbytes, algorithm=name)
        except AlgorithmNotApplicable:
            if len(names) == 1:
                raise
    return found


def sent(row: Algorithm, cell: Cell, size: int, nbytes: int) -> float:
    """The bytes sent by the busiest rank, counted in the schedule."""
    return float(share_sent(row, size, cell.root) * nbytes)


@cache
def share_sent(row: Algorithm, size: int, root: int) -> Fraction:
    """The fraction of the buffer that the busiest rank sends."""
    proof = verify(row.schedule, size=size, collective=row.collective, root=root)
    return proof.sent


def mpi_calls(bench: Bench) -> list[Callable[[], object]]:
    """The same call by mpi4py on the same arrays, if it has one."""
    from mpi4py import MPI

    world = mpi_world(bench.comm.size)
    call = mpi_call(MPI, world, bench.cell._asdict(), bench.source, bench.out)
    return [] if call is None else [call]


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of ratios."""
    return float(np.exp(np.mean(np.log(values))))
