"""How ranks of a test are started."""

from itertools import product

from collalgo import spawn, threads
from tests.support.leisure import at_leisure

STARTED = at_leisure(
    product([threads, spawn], [2, 3, 5]), {*product([threads], [2, 3, 5]), (spawn, 3)}
)
