"""The result of a proof: the properties of a schedule."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from collalgo.base import notebook
from collalgo.base.units import counted
from collalgo.schedule.steps import Step

#: The most ranks of a schedule that notebooks draw.
MOST_DRAWN = 32


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
    find_schedules
        Returns the schedules of all ranks, for a notebook, which draws them.
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
    find_schedules: Callable[[], Sequence[Sequence[Step]]] | None = field(
        default=None, repr=False, compare=False
    )

    def __getstate__(self) -> dict[str, Any]:
        """The properties; functions of users, as of a schedule, have no pickle."""
        return {**self.__dict__, "find_schedules": None}

    def _repr_svg_(self) -> str | None:
        return notebook.picture(self._obstacle, self._draw)

    def _repr_html_(self) -> str | None:
        return notebook.text(self, self._obstacle)

    def _obstacle(self) -> str:
        if self.size > MOST_DRAWN:
            return (
                f"a picture of {self.size} ranks is too large, at most {MOST_DRAWN} "
                "are drawn; collalgo algorithms show --svg draws up to 256"
            )
        is_known = self.find_schedules is not None
        return (
            "" if is_known else "the schedule is not kept with this copy of its proof"
        )

    def _draw(self) -> str:
        from collalgo.schedule import picture  # which few need

        schedules = self.find_schedules() if self.find_schedules else ()
        return picture.svg(schedules, str(self))

    def __str__(self) -> str:
        same = "same bits on every rank" if self.consistent else "bits may differ"
        return (
            f"{self.collective} of {counted(self.size, 'rank')}: "
            f"{counted(self.steps, 'step')}, {self.volume} n bytes, "
            f"{counted(self.links, 'link')}, {same}"
        )
