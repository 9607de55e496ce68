"""The result of a proof: the properties of a schedule."""

from dataclasses import dataclass
from fractions import Fraction

from collalgo.base.units import counted


@dataclass(frozen=True)
class Proof:
    """The properties of a proved schedule.

    Attributes
    ----------
    steps
        The largest number of steps of a rank.
    rounds
        The longest chain of messages, if a rank sends and receives at once but does
        either with one peer at a time.
    volume
        The bytes of the longest chain under the same rule, in buffers.
    sent, reduced
        The bytes that the busiest rank sends and combines, in buffers.
    links
        The number of ordered pairs of ranks between which messages travel.
    roundings
        The largest number of roundings of a contribution.
    order
        ``serial`` if every result is the sum in the order of the ranks; ``ranks`` if
        only adjacent runs of that order are combined, so that the op need not commute;
        ``any`` otherwise.
    consistent
        Whether a block has the same bits on all ranks, because its contributions were
        combined in the same order.
    spare
        The number of buffers that a rank needs in addition to the caller's.
    lanes
        The largest number of lanes between two ranks.
    """

    collective: str
    size: int
    root: int
    steps: int
    rounds: int
    volume: Fraction
    sent: Fraction
    reduced: Fraction
    links: int
    roundings: int
    order: str
    consistent: bool
    spare: int
    lanes: int

    def __str__(self) -> str:
        same = "same bits on every rank" if self.consistent else "bits may differ"
        return (
            f"{self.collective} of {counted(self.size, 'rank')}: "
            f"{counted(self.steps, 'step')}, {self.volume} n bytes, "
            f"{counted(self.links, 'link')}, {same}"
        )
