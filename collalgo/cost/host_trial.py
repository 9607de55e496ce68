"""A measurement of this host, of which the values of its profile are made."""

from collections.abc import Sequence
from typing import NamedTuple

from collalgo.engine.transport.waiting import cores

#: The number of tokens at once by which the cost of a further message is measured.
TOKENS = 5


class Trial(NamedTuple):
    """A measurement of a host, in seconds, or in seconds for each byte.

    Attributes
    ----------
    latency, tokens : float
        An exchange of one token, and of several, between two cores.
    switch : float
        An exchange of one token by two threads of a core.
    copy, reduce : float
        A copy and a reduction in the caches of a core.
    exchange, fetch : float
        As of :class:`HostProfile`.
    """

    latency: float
    tokens: float
    switch: float
    copy: float
    reduce: float
    exchange: float
    fetch: float

    @classmethod
    def best(cls, trials: Sequence["Trial"]) -> "Trial":
        """The best eighth of each value: other processes only lengthen it."""
        columns = zip(*trials, strict=True)
        return cls(*(sorted(each)[len(trials) // 8] for each in columns))

    def figures(self) -> dict[str, float]:
        """The values of a profile in a document."""
        # Copying a byte from another core takes longer: in a swap each of two ranks
        # copies both its own data and that of the other.
        handed = max(self.exchange * min(cores(), 2) / 4, self.copy)
        further = max(self.tokens - self.latency, 0.0)
        return {
            "latency": self.latency,
            "switch": self.switch,
            "message": further / (2 * (TOKENS - 1)),
            "copy": handed,
            "reduce": self.reduce + handed - self.copy,
            "exchange": self.exchange,
            "fetch": self.fetch,
        }


def spread(trials: Sequence[Trial]) -> dict[str, float]:
    """How far two halves of the trials differ in each value, as a part of it.

    The halves take turns, so that both have met the same load; 0 if they agree.
    """
    if len(trials) < 2:
        return dict.fromkeys(trials[0].figures(), 0.0)
    halves = [Trial.best(trials[first::2]).figures() for first in range(2)]
    return {name: _apart(*(half[name] for half in halves)) for name in halves[0]}


def _apart(one: float, other: float) -> float:
    least = min(one, other)
    return max(one, other) / least - 1 if least > 0 else 0.0


def measure() -> Trial:
    """Measure this host with arrays within its caches."""
    from collalgo.cost.calibration import per_byte, round_trips, swap

    copy, reduce = per_byte(1 << 20)
    return Trial(
        latency=round_trips(1, 2000),
        tokens=round_trips(TOKENS, 500),
        switch=round_trips(1, 200, cores=(0, 0)),
        copy=copy,
        reduce=reduce,
        exchange=swap(fetched=False),
        fetch=swap(fetched=True),
    )
