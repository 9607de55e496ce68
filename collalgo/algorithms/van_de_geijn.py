"""Geijin, that is van de Geijn: broadcast long data in pieces (Barnett et al. 1994).

>>> from collalgo import verify
>>> print(verify("van_de_geijn", size=8, collective="broadcast"))
broadcast of 8 ranks: 10 steps, 7/4 n bytes, 11 links, same bits on every rank
>>> print(verify("van_de_geijn_doubling", size=8, collective="broadcast"))
broadcast of 8 ranks: 6 steps, 7/4 n bytes, 24 links, same bits on every rank
"""

from collalgo.algorithms import k_nomial, ring
from collalgo.algorithms.fold import fold, nothing, whole
from collalgo.algorithms.halving_doubling import double
from collalgo.schedule import Group, Steps


def broadcast(group: Group) -> Steps:
    """Scatter down a binomial tree, gather around a ring."""
    yield from k_nomial.scatter(group)
    yield from ring.allgather(group)


@fold(nothing, whole)
def broadcast_doubling(group: Group) -> Steps:
    """Scatter down a binomial tree, gather by recursive doubling."""
    yield from k_nomial.scatter(group)
    yield from double(group)
