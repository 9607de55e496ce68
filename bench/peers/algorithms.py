"""Time the algorithms of a peer alternately, to find the fastest of each size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from collalgo.bench.cells import Cell
from collalgo.bench.measuring import Progress
from collalgo.bench.peers.contest import Contestant, Times, contestants, race_cell
from collalgo.bench.peers.environments import PEERS, Peer
from collalgo.bench.records import AS_ASKED, Record, record
from collalgo.bench.sweep import Sweep
from collalgo.bench.timing import PROMISING
from collalgo.bench.tuning import rules_of

from collalgo.selection.peer_rules import mpich, openmpi
from collalgo.selection.peer_rules.algorithms import (
    DEFAULT,
    PeerAlgorithm,
    Table,
    algorithms_of,
    ours,
)

#: The bursts that try each algorithm, and those that compare the promising ones.
FIRST, FURTHER = 2, 10

#: The settings that force an algorithm, of each peer that runs here.
SETTINGS = {"openmpi": openmpi.settings, "mpich": mpich.settings}

#: Collectives of collalgo with one algorithm for all sizes, in the files of a peer.
SIZELESS = {"openmpi": tuple(ours(name) for name in openmpi.SIZELESS), "mpich": ()}


@dataclass(frozen=True)
class Variant:
    """A peer that is forced to one algorithm for each collective.

    Attributes
    ----------
    peer : Peer
        The peer with the settings that force them.
    names : dict
        The name of the algorithm of each collective of collalgo.
    """

    peer: Peer
    names: dict[str, str]


def variants(peer: str, ranks: int) -> list[Variant]:
    """A peer with its defaults, and with each of its algorithms.

    The first variant with settings has the first algorithm of each collective, and so
    on, so that few processes are started.
    """
    base = next(one for one in PEERS if one.name == peer)
    fitting = _fitting(peer, ranks)
    found = [Variant(base, dict.fromkeys(map(ours, fitting), DEFAULT))]
    for number in range(max(map(len, fitting.values()))):
        chosen = {
            name: rows[number].name
            for name, rows in fitting.items()
            if number < len(rows)
        }
        settings = dict(base.settings)
        for collective, name in chosen.items():
            settings |= SETTINGS[peer](collective, name)
        forced = replace(base, name=f"{peer}-{number + 1}", settings=settings)
        names = {ours(collective): name for collective, name in chosen.items()}
        found.append(Variant(forced, names))
    return found


def _fitting(peer: str, ranks: int) -> dict[str, list[PeerAlgorithm]]:
    """The algorithms of the collectives with a choice, for a number of ranks."""
    found = {
        collective: [one for one in algorithms if one.fits(ranks)]
        for collective, algorithms in algorithms_of(peer).items()
    }
    return {name: rows for name, rows in found.items() if len(rows) > 1}


def cells_of(peer: str, ranks: int, sweep: Sweep) -> list[tuple[Cell, int]]:
    """The cells of a sweep with a choice of algorithms, and the number of them."""
    counts = {ours(name): len(rows) for name, rows in _fitting(peer, ranks).items()}
    return [
        (cell, counts[cell.collective] + 1)
        for cell in sweep.cells(ranks)
        if cell.collective in counts
    ]


def measure_algorithms(
    peer: str, ranks: int, sweep: Sweep, progress: Progress | None = None
) -> list[Record]:
    """Measure the algorithms of a peer, and its own decisions, side by side.

    Raises
    ------
    ContestError
        If the peer fails.
    """
    found = []
    tried = variants(peer, ranks)
    peers = [one.peer for one in tried]
    with contestants(peers, ranks, ours=False) as field:
        for cell, _ in cells_of(peer, ranks, sweep):
            if progress is not None:
                progress(cell)
            names = {
                contestant.name: one.names[cell.collective]
                for contestant, one in zip(field, tried, strict=True)
                if cell.collective in one.names
            }
            race = partial(race_cell, cell=cell, in_a_row=sweep.row(cell), check=False)
            times = _race([one for one in field if one.name in names], race)
            found += [
                _record(peer, cell, ranks, bursts, names[name])
                for name, bursts in times.items()
            ]
    return found


def _race(
    field: Sequence[Contestant], race: Callable[..., dict[str, list[Times]]]
) -> dict[str, list[Times]]:
    """The times of some contestants in a cell; only promising ones have many bursts."""
    times = race(field, rounds=FIRST)
    near = _promising(times, field[0].name)
    return times | race([one for one in field if one.name in near], rounds=FURTHER)


def _promising(times: dict[str, list[Times]], default: str) -> set[str]:
    """The contestants to time further: those with fast bursts, and the default."""
    best = {name: min(map(np.median, bursts)) for name, bursts in times.items()}
    limit = PROMISING * min(best.values())
    return {default, *(name for name, seconds in best.items() if seconds <= limit)}


def _record(
    peer: str, cell: Cell, ranks: int, bursts: Sequence[Times], algorithm: str
) -> Record:
    """The record of an algorithm in a cell."""
    reason = "its own decision" if algorithm == DEFAULT else AS_ASKED
    return record(
        cell, ranks, bursts, contestant=peer, algorithm=algorithm, reason=reason
    )


def table_of(peer: str, records: Sequence[Record]) -> Table:
    """The fastest algorithms, unless the peer's own decisions are about as fast."""
    found = {}
    for collective, rules in rules_of(records, SIZELESS[peer]).items():
        by_ranks = {rule["ranks"]: rule["sizes"] for rule in rules}
        tuned = {n: one for n, one in by_ranks.items() if {*one.values()} != {DEFAULT}}
        if tuned:
            name = next(t for t in algorithms_of(peer) if ours(t) == collective)
            found[name] = tuned
    return found
