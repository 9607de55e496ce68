"""The loss by a fault of a machine: the choice against that of the whole machine."""

from typing import Any, NamedTuple

from collalgo.base.units import human_time
from collalgo.cost.byte_matrix import ByteMatrix
from collalgo.cost.matrix_messages import matrix_messages
from collalgo.cost.placement import Placement
from collalgo.cost.rounds import rounds
from collalgo.cost.simulation import simulate
from collalgo.selection.selection import Selection
from collalgo.synthesis.synthesized import NAME as SYNTHESIZED

#: A schedule of the whole machine is cheaper below this multiple of the choice, as
#: the numbers are printed.
NOTABLE = 0.995


class Loss(NamedTuple):
    """A choice on a machine with faults, and that on the whole machine.

    Attributes
    ----------
    chosen, whole : Selection
        The choices with the faults and without them.
    old_seconds : float or None
        The time of the schedule of the whole machine on the one with faults; None if
        ranks are lost, for which it has no place.
    """

    chosen: Selection
    whole: Selection
    old_seconds: float | None

    @classmethod
    def of(
        cls,
        chosen: Selection,
        whole: Selection,
        placement: Placement,
        matrix: ByteMatrix | None = None,
    ) -> "Loss":
        """The loss of a choice.

        Parameters
        ----------
        chosen, whole
            As of the loss.
        placement
            The ranks on the machine with faults.
        matrix
            The bytes of an alltoallv.
        """
        if chosen.size != whole.size:
            return cls(chosen, whole, None)
        return cls(chosen, whole, _seconds(whole, placement, matrix))

    @property
    def times(self) -> float:
        """The time of the choice as a multiple of that on the whole machine."""
        return self.chosen.seconds / self.whole.seconds if self.whole.seconds else 1.0

    @property
    def kept(self) -> float:
        """The part of the bandwidth of the whole machine that the choice keeps."""
        return min(1.0, 1 / self.times) if self.times else 1.0

    @property
    def times_bound(self) -> float | None:
        """The bound as a multiple of that of the whole machine; None if not known."""
        with_faults, without = self.chosen.bound_seconds, self.whole.bound_seconds
        return with_faults / without if with_faults and without else None

    def __str__(self) -> str:
        text = (
            f"without the faults {human_time(self.whole.seconds)} by "
            f"{self.whole.choice.words}; {self._change}"
        )
        if self.times_bound is not None:
            text += f" and the bound by {self.times_bound:.2f}"
        if self.old_seconds is None:
            lost = f"needs {self.whole.size} ranks, but {self.chosen.size} remain"
            return f"{text}\nthat schedule {lost}"
        worse = self.old_seconds / self.chosen.seconds if self.chosen.seconds else 1.0
        return (
            f"{text}\nwith the faults that schedule would take "
            f"{human_time(self.old_seconds)}, {worse:.2f} times the choice"
            f"{self.why_no_candidate and f'; it {self.why_no_candidate}'}"
        )

    @property
    def why_no_candidate(self) -> str:
        """The reason why a cheaper schedule of the whole machine is not the choice.

        It is empty if that schedule is not cheaper.
        """
        old = self.old_seconds
        if old is None or old >= NOTABLE * self.chosen.seconds:
            return ""
        if self.whole.row.base_name == SYNTHESIZED:
            made = "was synthesised for the links of the whole machine"
        else:
            made = "has an order of the ranks that suits the whole machine"
        return f"{made}, so it is not among the candidates with the faults"

    @property
    def _change(self) -> str:
        """The change of the time, which fewer ranks or another search may shorten."""
        if self.times >= 1 or self.old_seconds is None:
            verb = "raise" if self.times >= 1 else "leave fewer ranks and change"
            return f"the faults {verb} the time by a factor of {self.times:.2f}"
        return "the faults do not raise the time"

    def as_dict(self) -> dict[str, Any]:
        """The loss in words and numbers, as for JSON; times in seconds."""
        return {
            "algorithm": self.whole.algorithm,
            "seconds": self.whole.seconds,
            "bound_seconds": self.whole.bound_seconds,
            "seconds_with_faults": self.old_seconds,
        }


def _seconds(
    whole: Selection, placement: Placement, matrix: ByteMatrix | None
) -> float:
    """The time of the schedule of a choice on another machine."""
    schedule = whole.decision.schedule
    if matrix is not None:
        messages = matrix_messages(schedule, whole.size, matrix.part)
        found: float = rounds(messages, placement.routes).line.seconds(matrix.total)
        return found
    return simulate(
        schedule,
        placement.machine,
        whole.nbytes,
        collective=whole.collective,
        order=placement.devices,
        link_model=placement.link_model,
    ).seconds
