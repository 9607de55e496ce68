"""A decision with the prices of all candidates, and its explanation."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from collalgo.algorithms.catalogue import Algorithm
from collalgo.algorithms.table import candidates as rows_of, is_users
from collalgo.base.integers import integer
from collalgo.base.units import counted, human_time
from collalgo.schedule.collective import collective_of
from collalgo.selection.candidate import (
    AS_CHEAP,
    Candidate,
    candidate_of,
    unable_candidates,
)
from collalgo.selection.decide import PRICE, Decision
from collalgo.selection.prices import ALIKE, ByPrice, Priced
from collalgo.topology.assumed import ASSUMED

if TYPE_CHECKING:  # which takes a while to import
    from collalgo.cost.bounds import Bound

#: The number of candidates that an explanation lists, unless all are wanted.
SHOWN = 10


@dataclass(frozen=True)
class Selection:
    """The algorithm that a call runs, with the reason.

    Attributes
    ----------
    algorithm : str
        The name of the choice, with its parameters.
    parameters : dict
        The parameters of the choice.
    seconds : float
        Its predicted time, with the correction.
    correction : float
        The factor by which calls of this host take longer than their prices, as
        measured by ``collalgo calibrate``; 1 if not measured, and on a topology.
    basis : str
        The origin of the prices.
    decision : Decision
        The decision, as a call makes it; its name is that of the flight recorder.
    choice : Candidate
        The candidate of the decision.
    decider : str
        "price", or the name of what overrode it.
    """

    collective: str
    size: int
    nbytes: int
    basis: str
    decision: Decision
    find_candidates: Callable[[], tuple[ByPrice, Mapping[Algorithm, str]]] = field(
        repr=False, compare=False
    )
    find_bound: "Callable[[], Bound | None]" = field(repr=False, compare=False)
    find_assumptions: Callable[[], tuple[str, ...]] = field(
        default=tuple, repr=False, compare=False
    )
    correction: float = 1.0
    find_runnable: Callable[[Candidate], Algorithm] = field(
        default=lambda candidate: candidate.row, repr=False, compare=False
    )

    @cached_property
    def choice(self) -> Candidate:
        return candidate_of(self.decision.candidate, self.nbytes, self.correction)

    @property
    def decider(self) -> str:
        return self.decision.decider

    @property
    def row(self) -> Algorithm:
        return self.choice.row

    @property
    def algorithm(self) -> str:
        return self.row.name

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.row.parameters)

    @property
    def seconds(self) -> float:
        return self.choice.seconds

    @cached_property
    def _found(self) -> tuple[ByPrice, list[Candidate]]:
        """The candidates that can run by their prices, and those that cannot."""
        able, obstacles = self.find_candidates()
        return able, unable_candidates(obstacles)

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """The choice, the others by their prices, and last those that cannot run.

        Candidates that cannot win are priced only when this is read.
        """
        chosen, (able, unable) = (self.choice.row, self.choice.order), self._found
        found = map(self._candidate, able)
        others = [one for one in found if (one.row, one.order) != chosen]
        return self.choice, *others, *unable

    def _candidate(self, one: Priced) -> Candidate:
        return candidate_of(one, self.nbytes, self.correction)

    def call_name(self, candidate: Candidate) -> str:
        """The name by which a call runs a candidate, with the order of its ranks."""
        return self.find_runnable(candidate).name

    @property
    def able(self) -> list[Candidate]:
        """The candidates that can run."""
        return [c for c in self.candidates if c.obstacle is None]

    @cached_property
    def distinct(self) -> list[Candidate]:
        """The candidates that can run, once for all orders of ranks of one price."""
        found: dict[tuple[str, float], Candidate] = {}
        for one in self.able:
            known = found.setdefault((one.algorithm, one.seconds), one)
            if known.order and not one.order and known is not self.choice:
                found[one.algorithm, one.seconds] = one
        return list(found.values())

    def cheapest(self) -> Iterator[Candidate]:
        """The choice, then the cheapest variant of each algorithm.

        A variant of the chosen algorithm is among them only if it is cheaper.
        """
        yield self.choice
        least = self.seconds * (1 - ALIKE)
        for one in map(self._candidate, self._found[0].algorithms()):
            if one.row.base_name != self.row.base_name or one.seconds < least:
                yield one

    @property
    def reason(self) -> str:
        """The reason of the choice, in a few words."""
        second = next(islice(self.cheapest(), 1, None), None)
        if second is None:
            return "the only one that can run"
        if second.seconds == self.seconds:
            return f"tied with {second.words}"
        if self.seconds < second.seconds <= self.seconds * (1 + AS_CHEAP):
            return f"about as cheap as {second.words}"
        if second.seconds < self.seconds and self.decider == PRICE:
            return f"nearly as cheap as {second.words}"
        if second.seconds < self.seconds:
            lost = self.seconds / second.seconds if second.seconds else float("inf")
            return f"{lost:.2f}x the time of {second.words}"
        ratio = second.seconds / self.seconds if self.seconds else float("inf")
        return f"{ratio:.2f}x cheaper than {second.words}"

    @cached_property
    def bound(self) -> "Bound | None":
        """The lower bound of the collective, on a topology where it is known."""
        return self.find_bound()

    @property
    def bound_seconds(self) -> float | None:
        """The lower bound in seconds, if it is known."""
        return None if self.bound is None else self.bound.seconds(self.nbytes)

    @cached_property
    def assumptions(self) -> tuple[str, ...]:
        """The assumed speeds of links that the price or its bound rests on."""
        bound = () if self.bound is None else self.bound.rests_on(self.nbytes)
        rests = bool(bound) or self.choice.caveat == ASSUMED
        return self.find_assumptions() if rests else ()

    @property
    def ratio(self) -> float | None:
        """The time of the choice over the lower bound."""
        return self.seconds / self.bound_seconds if self.bound_seconds else None

    @property
    def ratio_in_rounds(self) -> float | None:
        """The time over the lower bound in rounds; None without a bound."""
        least = 0.0 if self.bound is None else self.bound.in_rounds(self.nbytes)
        return self.seconds / least if least else None

    @property
    def headline(self) -> str:
        """The call, its algorithm and its price."""
        choice = f"{self.choice.words}, {human_time(self.seconds)}{self.choice.mark}"
        ranks = counted(self.size, "rank")
        call = collective_of(self.collective).sized(self.collective, self.nbytes)
        return f"{call} on {ranks}: {choice}"

    @property
    def origin(self) -> str:
        """What decided, and the origin of the prices."""
        return f"decided by {self.decider}; prices from {self.basis}"

    def __repr__(self) -> str:
        return f"<Selection {self.headline}>"

    def __str__(self) -> str:
        return self.explain()

    def _repr_html_(self) -> str | None:
        from collalgo.base import notebook  # which few need

        return notebook.picture(lambda: "", self._table)

    def _table(self) -> str:
        """The candidates as a table in HTML."""
        from collalgo.selection.html_table import html_table  # which few need

        shown = [*islice(self.cheapest(), SHOWN)]
        more = ["the cheapest candidates"] if self._has_more(shown) else []
        captions = [
            *(self.headline, self.reason, self.origin, *more),
            *(f"assumed: {rule}" for rule in self.assumptions),
            *self.own_obstacles,
        ]
        return html_table(captions, shown, self.bound_seconds)

    def explain(self, most: int | None = SHOWN) -> str:
        """The choice with the prices of others, as text of several lines.

        Parameters
        ----------
        most
            The number of algorithms to list, each in its cheapest variant; None for all
            variants and orders of ranks. The user's own are always listed.
        """
        if most is not None:
            most = integer(most, "most", "explain", 1)
        # which takes a while to import
        from collalgo.selection.explanation import beside_bound, obstacles, prices

        lines = [f"{self.headline}; {self.reason}", self.origin]
        lines += beside_bound(self.bound, self.seconds, self.nbytes)
        lines += [f"assumed: {rule}" for rule in self.assumptions]
        shown = self.distinct if most is None else self.listed(most)
        has_more = most is not None and self._has_more(shown)
        lines += [*self.own_obstacles, *prices(shown, has_more)]
        lines += obstacles(self.unable)
        return "\n".join(lines)

    def listed(self, most: int) -> list[Candidate]:
        """The cheapest algorithms, and all of the user's own."""
        ascending = self.cheapest()
        found = [*islice(ascending, most)]
        if any(map(is_users, rows_of(self.collective))):
            found += [one for one in ascending if is_users(one.row)]
        return found

    def _has_more(self, shown: Sequence[Candidate]) -> bool:
        """Whether candidates can run that are not shown; the choice may be none."""
        return len(self._found[0]) > len(shown)

    @property
    def unable(self) -> list[Candidate]:
        """The candidates that cannot run."""
        return self._found[1]

    @property
    def own_obstacles(self) -> list[str]:
        """The algorithms of the user that cannot run, each with its obstacle."""
        if not any(row.unproved for row in rows_of(self.collective)):
            return []  # no prices are needed to know that
        return [
            f"your {one.algorithm}: {one.obstacle}"
            for one in self.unable
            if is_users(one.row)
        ]

    def as_dict(self) -> dict[str, Any]:
        """The selection in words and numbers, as for JSON; times in seconds."""
        bound = self.bound
        return {
            "collective": self.collective,
            "size": self.size,
            "nbytes": self.nbytes,
            "algorithm": self.algorithm,
            "order": self.choice.order,
            "parameters": self.parameters,
            "seconds": self.seconds,
            "decider": self.decider,
            "basis": self.basis,
            "bound_seconds": self.bound_seconds,
            "bound_reason": None if bound is None else bound.why(self.nbytes),
            "ratio": self.ratio,
            "ratio_in_rounds": self.ratio_in_rounds,
            "assumed": list(self.assumptions),
            "candidates": [candidate.as_dict() for candidate in self.candidates],
        }
