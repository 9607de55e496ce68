"""How far apart two cores are at the moment: the latency of a handoff between them.

The cores of a virtual machine may be two threads of one physical core at one moment and
far apart at the next, which changes the times of collectives by factors.
"""

from math import inf
from time import monotonic

from collalgo.base.finalizers import Lock
from collalgo.base.threads import ThreadRefused
from collalgo.engine.transport.waiting import cores

#: The handoffs of a trial, and the number of trials. Other processes lengthen most of
#: them, so that the trials are short, and the least counts.
HANDOFFS, TRIALS = 100, 60

#: The seconds for which a distance holds.
HOLDS = 0.5


def distance() -> float:
    """The seconds of a handoff between two cores, now or up to :data:`HOLDS` ago.

    All threads get the same. 0 if the process has one core, or may not start threads.
    """
    with _one_at_a_time:
        if monotonic() - _last.since > HOLDS:
            _last.set(_measured())
        return _last.seconds


def distance_now() -> float:
    """As :func:`distance`, measured now."""
    with _one_at_a_time:
        _last.set(_measured())
        return _last.seconds


class _Last:
    """The last measured distance."""

    seconds, since = 0.0, -inf

    def set(self, seconds: float) -> None:
        self.seconds, self.since = seconds, monotonic()


_one_at_a_time, _last = Lock(), _Last()


def _measured() -> float:
    from collalgo.cost.calibration import round_trips  # which few processes need

    if cores() < 2:
        return 0.0
    try:
        return round_trips(1, HANDOFFS, cores=(0, -1), trials=TRIALS)
    except ThreadRefused:
        return 0.0
