"""How far collectives on this host take longer than their prices, as measured.

A price of a host is made of a few figures. What they leave out (the levels of caches,
the turns of ranks that share cores) depends on the collective, on the number of ranks
and on the size much more than on the algorithm. So ``collalgo calibrate`` measures
each collective on some numbers of ranks and some sizes; the ratio of the measured and
the predicted time corrects the predicted times of all its algorithms, and leaves their
order as it is.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from collalgo.base import disk_cache
from collalgo.cost.host_profile import HostProfile

#: The subfolder of the files, and their format.
KIND, FORMAT = "corrections", "corrections/1"

#: The most by which a price is corrected; more shows that a measurement went wrong.
MOST = 100.0


class Ratio(NamedTuple):
    """The measured over the predicted time of a cell, and the spread of measurements.

    The spread is the range of the middle half of the measurements, as a part of their
    median.
    """

    collective: str
    ranks: int
    nbytes: int
    ratio: float
    spread: float = 0.0


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
        self._rows: dict[str, dict[int, list[Ratio]]] = {}
        for one in self.ratios:
            rows = self._rows.setdefault(one.collective, {})
            rows.setdefault(one.ranks, []).append(one)

    def factor(self, collective: str, ranks: int, nbytes: float) -> float:
        """The factor of a predicted time; 1 for what was not measured.

        Between two measured sizes, and between two measured numbers of ranks, the
        logarithm of the factor is interpolated over that of the number; beyond them it
        is that of the nearest.
        """
        rows = self._rows.get(collective)
        if not rows or ranks < 2:
            return 1.0
        logs = [_of_size(row, nbytes) for row in rows.values()]
        return float(np.exp(np.interp(np.log(ranks), np.log([*rows]), logs)))


def _of_size(row: Sequence[Ratio], nbytes: float) -> float:
    """The logarithm of the factor for a size, from the ratios of some sizes."""
    sizes = np.log([max(one.nbytes, 1) for one in row])
    logs = np.log([one.ratio for one in row])
    return float(np.interp(np.log(max(nbytes, 1.0)), sizes, logs))


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
    collective, ranks, nbytes, ratio, spread = fields
    found = Ratio(str(collective), int(ranks), int(nbytes), float(ratio), float(spread))
    if not (found.ranks > 0 <= found.nbytes and 1 / MOST <= found.ratio <= MOST):
        raise ValueError(f"no ratio of times: {found}")
    return found


def summary(ratios: Iterable[Ratio]) -> Mapping[int, tuple[float, float, float]]:
    """By number of ranks: the least and the largest ratio, and the median spread."""
    rows: dict[int, list[Ratio]] = {}
    for one in ratios:
        rows.setdefault(one.ranks, []).append(one)
    return {
        ranks: (
            min(one.ratio for one in row),
            max(one.ratio for one in row),
            float(np.median([one.spread for one in row])),
        )
        for ranks, row in sorted(rows.items())
    }
