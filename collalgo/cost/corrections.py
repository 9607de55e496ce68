"""How far collectives on this host take longer than their prices, as measured.

A price of a host is made of a few figures. What they leave out (the levels of caches,
the turns of ranks that share cores) depends on the collective, on the number of ranks
and on the size much more than on the algorithm. So ``collalgo calibrate`` measures
each collective on some numbers of ranks and some sizes; the ratio of the measured and
the predicted time corrects the predicted times of all its algorithms, and leaves their
order as it is.

On a virtual machine the ratios also depend on the :mod:`.distance` of the cores at the
moment, so that each distance that was seen has ratios of its own. Ranks that share
cores wait for their turns on them, whatever the distance.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from collalgo.base import disk_cache
from collalgo.cost.host_profile import HostProfile

#: The subfolder of the files, and their format.
KIND, FORMAT = "corrections", "corrections/2"

#: The most by which a price is corrected; more shows that a measurement went wrong.
MOST = 100.0

#: Distances within this factor are the same: repeated measurements differ so far.
SAME = 1.5

#: The factor between sorted distances that shows that the cores have moved, and the
#: least part of them that shows more than a disturbance.
APART, FEW = 1.3, 0.05

#: A distance below that of any cores.
TINY = 1e-12


class Ratio(NamedTuple):
    """The measured over the predicted time of a cell, and the spread of measurements.

    The spread is the range of the middle half of the measurements, as a part of their
    median. The distance of the cores is in seconds; 0 if it makes no difference, as on
    one core and where ranks share cores.
    """

    collective: str
    ranks: int
    nbytes: int
    ratio: float
    spread: float = 0.0
    distance: float = 0.0


class Corrections:
    """The ratios of a host.

    Parameters
    ----------
    ratios
        Those of the cells that were measured.

    Examples
    --------
    >>> known = Corrections([Ratio("scan", 2, 1, 1.0), Ratio("scan", 2, 16, 4.0)])
    >>> known.factor("scan", 2, 4)
    2.0
    >>> known.factor("scan", 2, 1 << 20)
    4.0
    >>> known.factor("gather", 2, 4)
    1.0
    """

    def __init__(self, ratios: Iterable[Ratio] = ()):
        self.ratios = tuple(sorted(ratios))
        #: The levels of the distances that were seen: those of each number of ranks
        #: differ a little even if the cores have not moved.
        self.distances = levels({one.distance for one in self.ratios} - {0.0}, few=0)
        self._rows: dict[str, dict[int, dict[float, list[Ratio]]]] = {}
        for one in self.ratios:
            by_ranks = self._rows.setdefault(one.collective, {})
            by_distance = by_ranks.setdefault(one.ranks, defaultdict(list))
            by_distance[one.distance].append(one)

    def factor(
        self, collective: str, ranks: int, nbytes: float, distance: float = 0.0
    ) -> float:
        """The factor of a predicted time; 1 for what was not measured.

        Between two measured sizes, two numbers of ranks and two distances of cores, the
        logarithm of the factor is interpolated over that of the number; beyond them it
        is that of the nearest.
        """
        rows = self._rows.get(collective)
        if not rows or ranks < 2:
            return 1.0
        logs = [_of_distance(row, nbytes, distance) for row in rows.values()]
        return float(np.exp(np.interp(np.log(ranks), np.log([*rows]), logs)))


def _of_distance(
    rows: Mapping[float, Sequence[Ratio]], nbytes: float, distance: float
) -> float:
    """The logarithm of the factor for a size and a distance."""
    apart = np.log([max(seen, TINY) for seen in sorted(rows)])
    logs = [_of_size(rows[seen], nbytes) for seen in sorted(rows)]
    return float(np.interp(np.log(max(distance, TINY)), apart, logs))


def _of_size(row: Sequence[Ratio], nbytes: float) -> float:
    """The logarithm of the factor for a size, from the ratios of some sizes."""
    sizes = np.log([max(one.nbytes, 1) for one in row])
    logs = np.log([one.ratio for one in row])
    return float(np.interp(np.log(max(nbytes, 1.0)), sizes, logs))


def levels(found: Iterable[float], few: float = FEW) -> tuple[float, ...]:
    """The median of each group of distances without a gap, in order.

    Groups with less than ``few`` of all distances, as a part, are disturbances.

    >>> levels([9.1, 1.2, 9.0, 1.0, 1.1, 8.9])
    (1.1, 9.0)
    """
    groups: list[list[float]] = []
    measured = sorted(found)
    for one in measured:
        if not groups or one > APART * groups[-1][-1]:
            groups.append([])
        groups[-1].append(one)
    usual = [group for group in groups if len(group) > few * len(measured)]
    return tuple(float(np.median(group)) for group in usual or groups)


def level_of(distance: float, seen: Sequence[float]) -> float:
    """The nearest of some levels."""
    return min(seen, key=lambda one: abs(np.log(max(one, TINY) / max(distance, TINY))))


def keep(profile: HostProfile, ratios: Iterable[Ratio]) -> None:
    """Keep the ratios of the prices by a profile for later runs."""
    disk_cache.keep(KIND, _key(profile), json.dumps([*ratios]))
    known.cache_clear()


@lru_cache(maxsize=8)
def known(profile: HostProfile) -> Corrections:
    """The kept corrections of the prices by a profile; none if not measured."""
    text = disk_cache.recall(KIND, _key(profile))
    try:
        return Corrections(map(_ratio, json.loads(text or "[]")))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return Corrections()


def _key(profile: HostProfile) -> str:
    return repr((FORMAT, tuple(profile)))


def _ratio(fields: Any) -> Ratio:
    """A ratio of a file; ValueError or TypeError if the fields are wrong."""
    collective, ranks, nbytes, *others = fields
    ratio, spread, distance = map(float, others)
    found = Ratio(str(collective), int(ranks), int(nbytes), ratio, spread, distance)
    is_ratio = found.ranks > 0 <= found.nbytes and 1 / MOST <= found.ratio <= MOST
    if not (is_ratio and 0 <= found.distance < 1):
        raise ValueError(f"no ratio of times: {found}")
    return found


class Group(NamedTuple):
    """The ratios of a number of ranks at a distance: the least, the most, the spread.

    The spread is the median of those of the cells.
    """

    ranks: int
    distance: float
    least: float
    most: float
    spread: float


def summary(ratios: Iterable[Ratio]) -> list[Group]:
    """A row for each number of ranks and distance, in order."""
    found = list(ratios)
    seen = levels((one.distance for one in found), few=0)
    rows: dict[tuple[int, float], list[Ratio]] = defaultdict(list)
    for one in found:
        rows[one.ranks, level_of(one.distance, seen)].append(one)
    return [
        Group(
            ranks,
            distance,
            min(one.ratio for one in row),
            max(one.ratio for one in row),
            float(np.median([one.spread for one in row])),
        )
        for (ranks, distance), row in sorted(rows.items())
    ]
