"""The least time of a broadcast in rounds, in which each rank sends few messages.

Let K parts of at most n ranks receive data from that of the root, over links that carry
on average no more than the C out of the part of the root. Step s takes d_s seconds of
bytes and at least a(m) = a + (m - 1) g, if a rank sends m messages at most, with a gap
of g. Data that leaves the part of the root in step t is in at most

    P = (1 + n m_(t+1)) (1 + n m_(t+2)) ... (1 + n m_s)

parts after step s, since each part that has it sends it to n m others at most in a
step. What the parts have not then, they receive later. With D for all d_s, and for
each s,

    bytes <= C (D - sum over t <= s of d_t (1 - P / K)), without negative terms.

Their mean over s, each with the weight a(m_(s+1)) of the step after it, is

    bytes <= C D (1 - L / A),

where A is the sum of these weights, and L the least sum of a(m) (1 - P / K) over any
messages in the steps after one: ``L(P) = min a(m) (1 - P / K) + L(P (1 + n m))`` from
P = 1 on. The least of A + D over all A is ``(sqrt(bytes / C) + sqrt(L)) ** 2``. After
the last step A has j - 1 steps of one message more than the schedule, where j of them
reach all parts from one: they are taken off.

A reduce is a broadcast from its end to its beginning.
"""

from functools import cache
from math import ceil, inf, sqrt
from typing import NamedTuple


class Spread(NamedTuple):
    """The least time of a broadcast in rounds, whose data spreads by messages.

    Attributes
    ----------
    per_byte : float
        Seconds per 10^9 bytes out of the part of the root.
    waits : float
        The seconds of latency from the receipt of data in a part to that in all,
        each times the part of the parts that wait for it.
    ahead : float
        The seconds of steps that are counted and may not be there.
    """

    per_byte: float
    waits: float
    ahead: float

    def seconds(self, nbytes: float) -> float:
        """The least seconds for a number of bytes."""
        by_bytes = self.per_byte * nbytes / 1e9
        return (sqrt(by_bytes) + sqrt(self.waits)) ** 2 - self.ahead


def spread_over(
    per_byte: float, parts: int, ranks: int, latency: float, gap: float
) -> Spread:
    """The least time over some parts of at most some ranks.

    Examples
    --------
    >>> spread_over(1.0, 7, 1, 1.0, 0.5).waits  # to 2, 4 and 7 parts: 6/7 + 5/7 + 3/7
    2.0
    >>> spread_over(1.0, 7, 1, 1.0, 0.0).waits  # to all in the second step
    0.8571428571428572
    """

    @cache
    def waits(reached: int) -> float:
        """The seconds of all steps until all parts are reached, each times the rest."""
        if reached >= parts:
            return 0.0
        most = ceil((parts / reached - 1) / ranks)
        best = inf
        for count in range(1, most + 1) if gap else [most]:
            own = (latency + (count - 1) * gap) * (1 - reached / parts)
            if own >= best:  # more messages take longer
                break
            best = min(best, own + waits(reached * (1 + ranks * count)))
        return best

    steps, reached = 0, 1
    while reached < parts:
        steps, reached = steps + 1, reached * (1 + ranks)
    return Spread(per_byte, waits(1), max(0, steps - 1) * latency)
