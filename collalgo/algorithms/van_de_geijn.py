"""Geijin, that is van de Geijn: broadcast long data in pieces (Barnett et al. 1994).

>>> from collalgo import verify
>>> print(verify("van_de_geijn", size=8, collective="broadcast"))
broadcast of 8 ranks: 10 steps, 7/4 n bytes, 11 links, same bits on every rank
"""

from collalgo.algorithms import binomial, ring
from collalgo.schedule import Group, Steps


def broadcast(group: Group) -> Steps:
    """Scatter down a binomial tree, gather around a ring."""
    yield from binomial.scatter(group)
    yield from ring.allgather(group)
