"""What a price is of: a schedule, the bytes that it moves, and its bound."""

from collections.abc import Mapping
from typing import NamedTuple

from collalgo.algorithms.catalogue import find
from collalgo.algorithms.first_use import prove_users
from collalgo.cost.bounds import Bound
from collalgo.cost.machine_parameters import fitted, unfitted
from collalgo.cost.placement import Placement
from collalgo.cost.placement_bounds import placement_bound
from collalgo.schedule import ScheduleFunction
from collalgo.schedule.collective import COLLECTIVES, promise_of

#: The reason why there is no bound of a part of a collective.
OF_A_PART = "no bound is known: the schedule sends only some of the data of a whole {}"


class Job(NamedTuple):
    """A schedule and the bytes that it moves.

    Attributes
    ----------
    name : str
        The name of the algorithm.
    schedule : callable
        The function of a group.
    dims : tuple of int
        The grid of the schedule, if any.
    whole : float
        The bytes of all buffers that the chunks of the schedule divide.
    defaults : tuple of str
        The parameters that would follow the machine, but have the algorithm's default.
    """

    name: str
    schedule: ScheduleFunction
    dims: tuple[int, ...]
    whole: float
    defaults: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        algorithm: str | ScheduleFunction,
        collective: str,
        placement: Placement,
        nbytes: float,
        root: int,
    ) -> "Job":
        """The job of an algorithm, given as a function or by a name.

        Grids, hosts and cycles that the name does not give follow the machine. The
        schedule of a user is proved first.
        """
        whole = nbytes * COLLECTIVES[collective].buffers(placement.size)
        if callable(algorithm):
            name = getattr(algorithm, "__name__", "schedule")
            prove_users(algorithm, placement.size, collective, root)
            return cls(name, algorithm, (), whole)
        row = fitted(find(collective, algorithm, placement.size), placement)
        prove_users(row.schedule, placement.size, collective, root)
        dims = tuple(dict(row.parameters).get("dims", ()))
        defaults = unfitted(row, placement)
        return cls(row.name, row.schedule, dims, whole, defaults)

    def unbounded(self, collective: str) -> str:
        """The reason why it has no bound, or "": neighbors send only some blocks.

        Raises
        ------
        AlgorithmNotApplicable
            If it is a schedule of another collective.
        """
        is_whole = promise_of(self.schedule, collective) is COLLECTIVES[collective]
        return "" if is_whole else OF_A_PART.format(collective)

    def bound(
        self,
        collective: str,
        placement: Placement,
        root: int,
        late: Mapping[int, float] | None = None,
    ) -> Bound | None:
        """The bound of its collective on a placement; None if it is not known."""
        if self.unbounded(collective):
            return None
        return placement_bound(collective, placement, root, late)
