"""The alpha-beta-gamma price of a schedule, from its own steps and bytes."""

from collections.abc import Sequence

import numpy as np

from collalgo.machine import Machine
from collalgo.replay import Replay
from collalgo.schedule import Step
from collalgo.transfers import Reals


def price(
    schedules: Sequence[Sequence[Step]], machine: Machine, nbytes: Reals
) -> Reals:
    """The predicted time of a schedule for each of the sizes ``nbytes``.

    A step first sends (one message for each peer, one copy for each chunk) and then
    receives what has come; a message takes the latency of the machine. Where there
    are more ranks than cores, a message costs a switch between ranks, and all the work
    is spread over the cores: what a core does not do of the longest chain of messages
    is done meanwhile (Graham's bound for greedy scheduling).
    """
    replay = Replay(schedules)
    sends, takes, reduces = replay.kind == 0, replay.kind == 1, replay.kind == 2
    share = replay.share[replay.place] / replay.grid
    copied = machine.copy * replay.total(replay.posted, share)
    taken = machine.copy * replay.total(takes, share)
    taken += machine.reduce * replay.total(reduces, share)
    sending = np.outer(copied, nbytes)
    receiving = np.outer(taken, nbytes)
    sending += machine.message * replay.total(sends)[:, None]
    receiving += machine.message * replay.total(~sends)[:, None]
    crowded = len(schedules) > machine.cores
    latency = machine.switch if crowded else machine.latency
    total = (sending + receiving).sum(axis=0)
    longest = replay.longest(sending, receiving, latency)
    if not crowded:
        return longest
    total += machine.switch * np.count_nonzero(replay.total(~sends))
    spread: Reals = (total + (machine.cores - 1) * longest) / machine.cores
    return spread
