"""Choose the schedule that runs: for calls, ``select``, the benchmark and torch."""

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple

from collalgo.algorithms.catalogue import ALGORITHMS, Algorithm
from collalgo.algorithms.first_use import prove_once
from collalgo.algorithms.table import is_users
from collalgo.engine.call import AlgorithmChoice
from collalgo.errors import AlgorithmNotApplicable
from collalgo.schedule import ScheduleFunction
from collalgo.schedule.tracing import name_of
from collalgo.selection.applicability import NOT_SERIAL
from collalgo.selection.overrides import (
    BySize,
    Override,
    of_environment,
    of_policy,
)
from collalgo.selection.pricer import Pricer
from collalgo.selection.prices import Break, Choices, Priced

#: The deciders that no override names; a formula decides until prices are known.
PRICE, ARGUMENT, FORMULA = "price", "the argument", "formula"


class Question(NamedTuple):
    """The inputs of a decision, except the ranks and their prices.

    Attributes
    ----------
    collective : str
        The collective.
    nbytes : int
        Bytes of the larger of input and output of a rank, or of several such buffers.
    algorithm : None, str, sequence of str, or callable
        None, a name, names in order of preference, or a schedule function.
    reproducible : bool
        Whether the algorithm must combine in the order of the ranks.
    policy : str, optional
        A peer, or a rules file, whose default decision is taken.
    block_nbytes : tuple of int, optional
        The bytes of each block, where blocks differ.
    root : int
        The root, with which a user's schedule is proved.
    by_formulas : bool
        Whether formulas decide on short calls, which do not wait for prices.
    buffers : int
        The number of buffers that have these bytes; overrides give those of one.
    only : int, optional
        The only size that needs a decision: then fewer candidates are priced.
    """

    collective: str
    nbytes: int
    algorithm: AlgorithmChoice = None
    reproducible: bool = False
    policy: str | None = None
    block_nbytes: tuple[int, ...] | None = None
    root: int = 0
    by_formulas: bool = False
    buffers: int = 1
    only: int | None = None


class Decision(NamedTuple):
    """The schedule that runs.

    Attributes
    ----------
    name : str
        The name that ranks compare and the flight recorder keeps.
    schedule : callable
        The schedule function, in the order of ranks that was decided on.
    decider : str
        ``"price"``, or the name of the override.
    candidate : Priced
        The algorithm with its price and the name of the order of ranks.
    unproved : bool
        Whether the schedule is to be proved before it moves a byte.
    parameters_for_counts : callable, optional
        Gives the parameters that follow from the bytes of all blocks.
    """

    name: str
    schedule: ScheduleFunction
    decider: str
    candidate: Priced
    unproved: bool
    parameters_for_counts: Callable[[Sequence[int]], dict[str, Any]] | None = None

    def for_blocks(self, block_nbytes: tuple[int, ...] | None) -> "Decision":
        """The decision for blocks of these bytes: itself unless parameters follow."""
        if self.parameters_for_counts is None or block_nbytes is None:
            return self
        parameters = self.parameters_for_counts(block_nbytes)
        return self._replace(schedule=partial(self.schedule, **parameters))


def decide(question: Question, pricer: Pricer) -> Decision:
    """The schedule for a call; the choice of the user precedes the price.

    A name selects the cheapest variant of an algorithm in the best order of ranks, a
    name with parameters exactly this. All sizes between two borders have one object.

    Raises
    ------
    AlgorithmNotApplicable
        If no algorithm can run, or the requested one cannot.
    ScheduleError
        If the user's schedule is wrong.
    """
    found = decisions(question, pricer).at(question.nbytes)
    return found.for_blocks(question.block_nbytes)


def decisions(question: Question, pricer: Pricer) -> "Decisions":
    """The decisions for all sizes of a question, regardless of its own size and blocks.

    They are found once for all communicators and threads with these prices, for as long
    as the environment, the rules and the table of algorithms stay as they are.

    Raises
    ------
    AlgorithmNotApplicable, ScheduleError
        As :func:`decide`; where rules name algorithms by size, ``at`` raises them.
    """
    asked = question.algorithm
    made_of: Hashable
    make: Callable[[], Decisions]
    if callable(asked):
        made_of, make = asked, partial(_of_function, question, asked, pricer)
    else:
        made_of = overrides = _overrides(question, pricer)
        make = partial(_of_overrides, question, overrides, pricer)
    asked_for = question.collective, question.reproducible, question.root
    key = *asked_for, question.by_formulas, question.only, made_of
    return pricer.computed(key, ALGORITHMS, make)


class Decisions:
    """The decisions for all sizes: borders, and a decision from each of them on.

    Parameters
    ----------
    borders
        Sizes in bytes in ascending order, the first 0.
    make
        Gives the decision after a border by its number, or those for each size there.
    """

    def __init__(
        self, borders: Sequence[float], make: Callable[[int], "Decision | Decisions"]
    ):
        self._borders, self._make = borders, make
        self._made: dict[int, Decision | Decisions] = {}

    def at(self, nbytes: int) -> Decision:
        """The decision for a size, up to the next border the same object.

        Raises
        ------
        AlgorithmNotApplicable
            If an algorithm of rules cannot run.
        """
        number = bisect_right(self._borders, nbytes) - 1
        found = self._made.get(number)
        if found is None:  # one object for all threads that come here
            found = self._made.setdefault(number, self._make(number))
        return found.at(nbytes) if isinstance(found, Decisions) else found

    def around(self, nbytes: int) -> tuple[float, float]:
        """The sizes with the decision of one: the least, and the first above."""
        above = bisect_right(self._borders, nbytes)
        least = self._borders[above - 1]
        limit = self._borders[above] if above < len(self._borders) else inf
        found = self._made.get(above - 1)
        if isinstance(found, Decisions):
            inner = found.around(nbytes)
            return max(least, inner[0]), min(limit, inner[1])
        return least, limit


def _overrides(question: Question, pricer: Pricer) -> BySize:
    """The decisions of an argument, a policy or the environment."""
    found = _of_one_buffer(question, pricer)
    return tuple((least * question.buffers, override) for least, override in found)


def _of_one_buffer(question: Question, pricer: Pricer) -> BySize:
    """The same by the bytes of the buffer of one rank."""
    collective, asked = question.collective, question.algorithm
    if asked is not None:
        assert not callable(asked)
        names = (asked,) if isinstance(asked, str) else asked
        return ((0, Override(tuple((name,) for name in names), ARGUMENT)),)
    if question.policy is not None:
        return of_policy(question.policy, collective, pricer.size, pricer.world)
    return of_environment(collective, pricer.size)


def _of_overrides(question: Question, overrides: BySize, pricer: Pricer) -> Decisions:
    """The decisions of overrides, and of the price without overrides."""

    def of(number: int) -> Decisions:
        return _of_override(question, overrides[number][1], pricer)

    if len(overrides) == 1:
        return of(0)
    return Decisions([least for least, _ in overrides], of)


def _of_override(
    question: Question, override: Override | None, pricer: Pricer
) -> Decisions:
    """The decisions of one override, or of the price."""
    if override is not None:
        known = _preferred(question, override, pricer)
        return _of_choices(known, override.decider, pricer)
    asked = question.collective, question.reproducible
    if not question.by_formulas:
        return _of_choices(pricer.choices(*asked, question.only), PRICE, pricer)
    first, limit = pricer.first_choices(*asked)
    priced = question._replace(by_formulas=False)

    def of(number: int) -> Decisions:
        if number or not first.breaks:
            return _of_override(priced, None, pricer)
        return _of_choices(first, FORMULA, pricer)

    return Decisions([0.0, limit] if first.breaks else [0.0], of)


def _of_choices(known: Choices, decider: str, pricer: Pricer) -> Decisions:
    """The decisions that follow from choices."""

    def decision(number: int) -> Decision:
        candidate = known.breaks[number].candidate
        row = pricer.runnable(candidate)
        for_counts = row.parameters_for_counts
        return Decision(
            row.name, row.schedule, decider, candidate, row.unproved, for_counts
        )

    return Decisions(known.borders, decision)


def _preferred(question: Question, override: Override, pricer: Pricer) -> Choices:
    """The choices among the variants of the first preference that can run."""
    obstacles = []
    for names in override.preferences:
        rows = []
        for name in names:
            try:
                rows.append(_checked(name, question, pricer))
            except AlgorithmNotApplicable as obstacle:
                obstacles.append(str(obstacle))
        if len(rows) == 1 and rows[0].name != rows[0].base_name:
            return Choices([Break(0.0, pricer.price_one(rows[0]))])
        if rows:
            return pricer.choices_among(rows, question.only)
    asked_by = "" if override.decider == ARGUMENT else f" (from {override.decider})"
    reasons = "; ".join(obstacles)
    raise AlgorithmNotApplicable(
        (reasons or f"{question.collective}: no algorithm is named") + asked_by,
        collective=question.collective,
    )


def _checked(name: str, question: Question, pricer: Pricer) -> Algorithm:
    """The row of a name that can run, which is proved if it is the user's."""
    collective = question.collective
    row = pricer.find(collective, name)
    if question.reproducible and not row.keeps_rank_order:
        raise AlgorithmNotApplicable(
            f"{collective}: {name} {NOT_SERIAL}", collective=collective
        )
    if is_users(row):
        prove_once(row.schedule, pricer.size, collective, question.root)
    return row


def _of_function(
    question: Question, schedule: ScheduleFunction, pricer: Pricer
) -> Decisions:
    """The decision for a schedule function that is not in the table."""
    collective, name = question.collective, name_of(schedule)
    if question.reproducible:
        raise AlgorithmNotApplicable(
            f"{collective}: the order in which {name} combines is unknown; name an "
            "algorithm of the table, or leave out reproducible",
            collective=collective,
        )
    prove_once(schedule, pricer.size, collective, question.root)
    candidate = pricer.price_one(Algorithm(collective, name, schedule, unproved=True))
    decision = Decision(name, schedule, ARGUMENT, candidate, unproved=True)
    return Decisions([0], lambda _: decision)
