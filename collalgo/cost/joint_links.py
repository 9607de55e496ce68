"""Links that all messages share in the same proportion, as one.

A message of a GPU takes all of its NVSwitches alike: its links to them are as good as
one with the sum of their speeds, and take a fraction of the time to plan on.
"""

import numpy as np
from numpy.typing import NDArray

from collalgo.cost.turning import PART_BITS, Loads, mixed
from collalgo.schedule.transfers import Ints, Reals


def joined(
    loads: Loads, speed: Reals, assumed: NDArray[np.bool_]
) -> tuple[Loads, Reals, NDArray[np.bool_]]:
    """Join the links that all pairs of ranks load in the same proportion.

    Parameters
    ----------
    loads
        The loads of all pairs of ranks on some links.
    speed, assumed
        The bytes per second of each link, and whether they are assumed.

    Returns
    -------
    tuple
        The same of the joint links, without links that no pair uses.
    """
    links = np.flatnonzero(np.bincount(loads.link, minlength=len(speed)))
    joint = _joint(loads, speed)[links]
    first, number = np.unique(joint, return_inverse=True)
    of_link = np.zeros(len(speed), np.int64)
    of_link[links] = number
    key = loads.pair * len(first) + of_link[loads.link]
    found, which = np.unique(key, return_inverse=True)
    pair, link = np.divmod(found, max(1, len(first)))
    part: Reals = np.bincount(which, loads.part, len(found)).astype(float)
    total: Reals = np.bincount(number, speed[links], len(first)).astype(float)
    is_assumed = np.bincount(number, assumed[links], len(first)) > 0
    return Loads(pair, link, part), total, is_assumed


def _joint(loads: Loads, speed: Reals) -> Ints:
    """The lowest link that each is joined with, by the seconds of all pairs."""
    seconds = loads.part / speed[loads.link] * speed.max(initial=0.0)
    steps = np.rint(seconds * 2**PART_BITS).astype(np.uint64)
    content = np.zeros(len(speed), np.uint64)
    of_pair = mixed(loads.pair.astype(np.uint64))
    np.add.at(content, loads.link, mixed(of_pair ^ steps))
    _, first, number = np.unique(content, return_index=True, return_inverse=True)
    found: Ints = first[number]
    return found
