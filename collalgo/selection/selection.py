"""A decision with the prices of all candidates, and its explanation."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from collalgo.algorithms.catalogue import Algorithm
from collalgo.algorithms.table import candidates as rows_of, is_users
from collalgo.base.integers import integer
from collalgo.base.units import counted, human_time
from collalgo.schedule.collective import collective_of
from collalgo.selection.candidate import Candidate, ranked
from collalgo.selection.decide import PRICE, Decision
from collalgo.topology.assumed import ASSUMED

if TYPE_CHECKING:  # which takes a while to import
    from collalgo.cost.bounds import Bound

#: The number of candidates that an explanation lists, unless all are wanted.
SHOWN = 10

#: Relative difference up to which two times count as the same in words.
AS_CHEAP = 0.005


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
    find_candidates: Callable[[], Sequence[Candidate]] = field(
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
        return ranked([self.decision.candidate], {}, self.nbytes, self.correction)[0]

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
    def candidates(self) -> tuple[Candidate, ...]:
        """The choice, the others by their prices, and last those that cannot run.

        Candidates that cannot win are priced only when this is read.
        """
        chosen = self.choice.row, self.choice.order
        found = self.find_candidates()
        return self.choice, *(c for c in found if (c.row, c.order) != chosen)

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

    @property
    def reason(self) -> str:
        """The reason of the choice, in a few words."""
        others = self.distinct[1:]
        if not others:
            return "the only one that can run"
        second = min(others, key=lambda candidate: candidate.seconds)
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

        shown, hidden = self.distinct[:SHOWN], self.distinct[SHOWN:]
        more = f"the {SHOWN} cheapest of {len(self.distinct)} candidates"
        captions = [
            *(self.headline, self.reason, self.origin, *[more] * bool(hidden)),
            *(f"assumed: {rule}" for rule in self.assumptions),
            *self.own_obstacles,
        ]
        return html_table(captions, shown, self.bound_seconds)

    def explain(self, most: int | None = SHOWN) -> str:
        """The choice with the prices of others, as text of several lines.

        Parameters
        ----------
        most
            The number of candidates to list, the cheapest first; None for all. The
            user's own are always listed.
        """
        if most is not None:
            most = integer(most, "most", "explain", 1)
        lines = [
            f"{self.headline}; {self.reason}",
            self.origin,
        ]
        if self.bound is not None and self.ratio is not None:
            from collalgo.cost.lower_bound import (
                compared,  # which takes a while to import
            )

            lines.append(compared(self.seconds, self.bound, self.nbytes))
            lines += self._relayed(self.ratio, self.bound.in_rounds(self.nbytes))
        lines += [f"assumed: {rule}" for rule in self.assumptions]
        lines += self.own_obstacles
        return "\n".join([*lines, *self._prices(most), *self._obstacles()])

    def _relayed(self, ratio: float, least: float) -> Iterator[str]:
        """The least time in rounds, if that is more than the bound."""
        if self.seconds / least < ratio * (1 - AS_CHEAP):
            yield (
                f"{self.seconds / least:.2f} times the least in rounds of "
                f"{human_time(least)}: ranks relay data a step after they receive it"
            )

    def _prices(self, most: int | None) -> Iterator[str]:
        """The prices of the cheapest candidates, and of all of the user's own."""
        able = self.distinct
        rest = [] if most is None else able[most:]
        shown = able[:most] + [one for one in rest if is_users(one.row)]
        width = max(len(c.words) for c in shown)
        for c in shown:
            yield f"  {c.words:{width}} {c.seconds * 1e6:12.2f} us{c.mark}"
        if hidden := len(able) - len(shown):
            yield f"  and {hidden} more, up to {human_time(able[-1].seconds)}"

    @property
    def own_obstacles(self) -> list[str]:
        """The algorithms of the user that cannot run, each with its obstacle."""
        if not any(row.unproved for row in rows_of(self.collective)):
            return []  # no prices are needed to know that
        return [
            f"your {one.algorithm}: {one.obstacle}"
            for one in self.candidates
            if one.obstacle is not None and is_users(one.row)
        ]

    def _obstacles(self) -> Iterator[str]:
        """The other candidates that cannot run, by their obstacles."""
        unable: dict[str, list[str]] = {}
        for candidate in self.candidates:
            if candidate.obstacle is not None and not is_users(candidate.row):
                unable.setdefault(candidate.obstacle, []).append(candidate.algorithm)
        for why, names in unable.items():
            yield f"  {', '.join(names)}: {why}"

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
