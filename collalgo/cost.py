"""The alpha-beta-gamma price of a schedule, from its own steps and bytes."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collalgo.machine import Machine
from collalgo.replay import Played, replay
from collalgo.schedule import Chunks, Kind, Step

Seconds = NDArray[np.float64]


class Work(NamedTuple):
    """What a core has to do for a part of a step."""

    messages: int
    copied: float
    reduced: float

    def seconds(self, machine: Machine, nbytes: Seconds) -> Seconds:
        per_byte = self.copied * machine.copy + self.reduced * machine.reduce
        return self.messages * machine.message + per_byte * nbytes


def price(
    schedules: Sequence[Sequence[Step]], machine: Machine, nbytes: Seconds
) -> Seconds:
    """The predicted time of a schedule for each of the sizes ``nbytes``.

    A step first sends (one message for each peer, one copy for each chunk) and then
    receives what has come; a message takes the latency of the machine. Where there
    are more ranks than cores, a message costs a switch between ranks, and all the work
    together is spread over the cores: neither that nor the longest chain of messages
    can be beaten.
    """
    crowded = len(schedules) > machine.cores
    latency = machine.switch if crowded else machine.latency
    zero = np.zeros_like(nbytes)
    ended = [zero] * len(schedules)
    sent: dict[tuple[int, int], Seconds] = {}
    total = zero
    for is_end, played in replay(schedules):
        rank, index = played.rank, played.number
        if not is_end:
            work = sending(played.step).seconds(machine, nbytes)
            sent[rank, index] = ended[rank] + work
        else:
            work = receiving(played.step).seconds(machine, nbytes)
            ended[rank] = _arrival(played, sent, latency) + work
            total = total + (machine.switch if crowded and played.receives else 0)
        total = total + work
    longest: Seconds = np.max(ended, axis=0)
    return np.maximum(longest, total / machine.cores)


def _arrival(
    played: Played, sent: dict[tuple[int, int], Seconds], latency: float
) -> Seconds:
    """When the rank has sent its own and the last message of the step has come."""
    arrived = sent[played.rank, played.number]
    for message in played.receives:
        there = sent[message.channel.sender, message.sent_in] + latency
        arrived = np.maximum(arrived, there)
    return arrived


def sending(step: Step) -> Work:
    """The work of a step's sends; the same chunks for several peers are copied once."""
    sends = [t for t in step if t.kind is Kind.SEND]
    distinct = {(t.lane, t.chunks) for t in sends}
    return Work(len(sends), sum(_share(chunks) for _, chunks in distinct), 0.0)


def receiving(step: Step) -> Work:
    """The work of a step's receives."""
    shares: dict[Kind, float] = defaultdict(float)
    for transfer in step:
        shares[transfer.kind] += _share(transfer.chunks)
    count = sum(t.kind is not Kind.SEND for t in step)
    return Work(count, shares[Kind.RECV], shares[Kind.RECV_REDUCE])


def _share(chunks: Chunks) -> float:
    return sum((chunk.stop - chunk.start) / chunk.parts for chunk in chunks)
