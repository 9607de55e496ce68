"""Ranks that come late to a call: steps of the others only do not wait for them."""

from collections.abc import Mapping, Sequence

import numpy as np

from collalgo.cost.placement import Placement
from collalgo.errors import TopologyError
from collalgo.schedule import ScheduleFunction


def check_late(late: Mapping[int, float], size: int, model: str) -> None:
    """Refuse ranks out of range, no delays, and models without steps.

    Raises
    ------
    TopologyError
        With the rank and its delay.
    """
    if late and model != "rounds":
        raise TopologyError(f"late ranks are for the model rounds, not for {model}")
    for rank, seconds in late.items():
        if not 0 <= rank < size:
            raise TopologyError(f"late rank {rank} is not one of the {size} ranks")
        if not 0 <= seconds < np.inf:
            raise TopologyError(
                f"late rank {rank} comes after {seconds} s; pass seconds from 0"
            )


def seconds_after_arrival(
    placement: Placement,
    schedule: ScheduleFunction,
    steps: Sequence[float],
    late: Mapping[int, float],
    root: int = 0,
) -> float:
    """The seconds from the arrival of the last rank to the end of a schedule.

    A step begins after the one before, and after all its ranks have arrived.

    Parameters
    ----------
    placement
        The device of each rank.
    schedule
        The function of a group.
    steps
        The seconds of each step.
    late
        The delay of each late rank in seconds.
    root
        The rank of the root.
    """
    messages, now = placement.messages(schedule, root), 0.0
    arrival = np.zeros(len(steps))
    for rank, delay in late.items():
        mine = messages.step[messages.rank == rank]
        arrival[mine] = np.maximum(arrival[mine], delay)
    for seconds, earliest in zip(steps, arrival.tolist(), strict=True):
        now = max(now, earliest) + seconds
    return now - max(late.values())
