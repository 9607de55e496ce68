"""A lower bound of a collective, and a price compared with it."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf, sqrt
from typing import NamedTuple, Protocol

from collalgo.base.units import human_time, number_of_bytes
from collalgo.topology.assumed import marked

#: The relative difference up to which a price is as low as its bound: by rounding.
AS_LOW = 1e-6


class LeastInRounds(Protocol):
    """A lower bound of a broadcast or reduce in the model of rounds."""

    def seconds(self, nbytes: float) -> float:
        """The least seconds for a number of bytes."""


class Relay(NamedTuple):
    """The least time of a broadcast in rounds between parts of the ranks.

    See :mod:`collalgo.cost.relaying`.

    Attributes
    ----------
    per_byte : float
        Seconds per 10^9 bytes out of the part of the root.
    latency : float
        The least latency between two parts, times the part of the data of a step that
        a part has only after the next one.
    message : float
        The seconds of each further message of a rank in a step, times that part.
    full : float
        The number of messages of a rank that fill the links of a part.
    """

    per_byte: float
    latency: float
    message: float = 0.0
    full: float = 1.0

    def seconds(self, nbytes: float) -> float:
        """The least seconds for a number of bytes, with any number of messages."""
        by_bytes = self.per_byte * nbytes / 1e9
        return min(
            (
                sqrt(by_bytes * max(1.0, self.full / count))
                + sqrt(self.latency + (count - 1) * self.message)
            )
            ** 2
            for count in range(1, ceil(self.full) + 1)
        )


@dataclass(frozen=True)
class Bound:
    """A lower bound of the time of a collective, and its reason.

    It is the greater of two terms, which may overlap: the time of all bytes across the
    narrowest cut, or of the best trees or flows over the routes of messages, and the
    time of the first word to reach all ranks.

    Attributes
    ----------
    collective : str
        The name of the collective.
    per_byte : Fraction
        Seconds per 10^9 bytes of the buffer: of the whole buffer for an allgather,
        reduce-scatter, gather or scatter, of the buffer of a rank for an alltoall.
    witness : tuple of str
        The devices on one side of the cut; all ranks for a partition, trees or flows.
    reason : str
        A description of the cut, the partition, or the programme of trees or flows.
    exact : bool
        Whether some schedule of trees or flows attains the bandwidth term.
    latency : float
        Seconds of the collective without bytes.
    assumed : tuple of str
        The assumed speeds of links across the cut; empty if all are known.
    relays : tuple
        Further lower bounds of a broadcast or reduce in the model of rounds.
    """

    collective: str
    per_byte: Fraction
    witness: tuple[str, ...]
    reason: str
    exact: bool = False
    latency: float = 0.0
    assumed: tuple[str, ...] = ()
    relays: tuple[LeastInRounds, ...] = ()

    def seconds(self, nbytes: float | str) -> float:
        """The least time for a number of bytes, or text as ``"1M"``."""
        whole = number_of_bytes(nbytes, "Bound")
        return max(self.latency, float(self.per_byte) * whole / 1e9)

    def in_rounds(self, nbytes: float | str) -> float:
        """The lower bound in the model of rounds: data is relayed a step later."""
        whole = number_of_bytes(nbytes, "Bound")
        least = [one.seconds(whole) for one in self.relays]
        return max([self.seconds(whole), *least])

    def is_by_bytes(self, nbytes: float | str) -> bool:
        """Whether the bytes of a buffer limit the collective, and not the latency."""
        return self.seconds(nbytes) > self.latency

    def rests_on(self, nbytes: float | str) -> tuple[str, ...]:
        """The assumed speeds that the least time for a number of bytes rests on."""
        return self.assumed if self.is_by_bytes(nbytes) else ()

    def why(self, nbytes: float | str) -> str:
        """The reason of the least time for a number of bytes."""
        if self.is_by_bytes(nbytes):
            return self.reason
        return f"the first word takes {human_time(self.latency)} to reach every rank"

    @property
    def bandwidth(self) -> float:
        """The greatest GB/s of the buffer."""
        return float(1 / self.per_byte) if self.per_byte else inf

    def __str__(self) -> str:
        least = f"{self.collective}: at least {human_time(self.latency)}"
        if not self.per_byte:
            return f"{least}: {self.reason}"
        mark = marked(self.assumed)
        text = f"{least}, and at most {self.bandwidth:.4g} GB/s{mark} of the buffer: "
        return "\n".join([text + self.reason, *(f"assumed: {e}" for e in self.assumed)])


def compared(seconds: float, limit: Bound, nbytes: float) -> str:
    """A price as a multiple of its bound, with the reason; it is wrong if below 1."""
    least = limit.seconds(nbytes)
    text = (
        f"{seconds / least:.2f} times the bound of {human_time(least)}"
        f"{marked(limit.rests_on(nbytes))}: {limit.why(nbytes)}"
    )
    if seconds < least * (1 - AS_LOW):
        text += (
            "\nbelow the bound, which is impossible: either the schedule does less "
            f"than {limit.collective} promises (check it by collalgo verify), or the "
            "price or the bound is wrong; please report it"
        )
    return text
