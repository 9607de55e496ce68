"""Decide which schedule runs: for calls, ``select``, the benchmark and torch alike."""

import os
from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from math import ceil, inf
from typing import NamedTuple

from collalgo.algorithms.catalogue import Algorithm, find, named
from collalgo.algorithms.verify import prove_once
from collalgo.engine.call import AlgorithmChoice
from collalgo.errors import AlgorithmNotApplicable
from collalgo.schedule import ScheduleFunction
from collalgo.selection.applicability import NOT_SERIAL
from collalgo.selection.overrides import FILE, Override, from_environment, of_policy
from collalgo.selection.pricer import Pricer
from collalgo.selection.prices import Choices, Priced

#: The deciders that no override names.
PRICE, ARGUMENT = "price", "the argument"


class Question(NamedTuple):
    """All that a decision depends on, beside the ranks and their prices.

    Attributes
    ----------
    collective : str
        What is called.
    nbytes : int
        Bytes of the larger of input and output of a rank.
    algorithm : None, str, sequence of str, or callable
        As the user has passed it: nothing, a name, names in order of preference, or a
        schedule function.
    reproducible : bool
        Whether only algorithms that combine in the order of the ranks will do.
    policy : str, optional
        A peer, or a file of rules, whose default decision is taken.
    block_nbytes : tuple of int, optional
        The bytes of each block, where blocks differ.
    root : int
        The root, with which a user's schedule is proved.
    """

    collective: str
    nbytes: int
    algorithm: AlgorithmChoice = None
    reproducible: bool = False
    policy: str | None = None
    block_nbytes: tuple[int, ...] | None = None
    root: int = 0


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
    least, limit : float
        It holds for all ``least <= nbytes < limit``. If there are none, it holds for
        calls with the same bytes of each block only.
    """

    name: str
    schedule: ScheduleFunction
    decider: str
    candidate: Priced
    unproved: bool
    least: float = 0
    limit: float = inf


def decide(question: Question, pricer: Pricer) -> Decision:
    """The schedule for a call; what a user asks for comes before the price.

    A name stands for the cheapest variant of an algorithm in the best order of ranks, a
    name with parameters for exactly this.

    Raises
    ------
    AlgorithmNotApplicable
        If nothing can run, or not as asked.
    ScheduleError
        If the user's schedule is wrong.
    """
    if callable(question.algorithm):
        return _of_function(question, question.algorithm, pricer)
    override = _override(question, pricer)
    if override is None:
        known = pricer.choices(question.collective, question.reproducible)
        decider = PRICE
    else:
        known, decider = _preferred(question, override, pricer), override.decider
    candidate = known.at(question.nbytes)
    row = pricer.runnable(candidate)
    schedule = _for_counts(row, question.block_nbytes)
    sizes = _sizes(question, known, row)
    return Decision(row.name, schedule, decider, candidate, row.unproved, *sizes)


def _sizes(question: Question, choices: Choices, row: Algorithm) -> tuple[float, float]:
    """The sizes for which a decision holds: the least, and the first that is above."""
    if row.parameters_for_counts is not None and question.block_nbytes is not None:
        return 0, 0
    if question.policy is not None or FILE in os.environ:
        return question.nbytes, question.nbytes + 1
    borders = [ceil(border.nbytes) for border in choices.breaks] + [inf]
    above = bisect_right(borders, question.nbytes)
    return borders[above - 1], borders[above]


def _for_counts(
    row: Algorithm, block_nbytes: tuple[int, ...] | None
) -> ScheduleFunction:
    """The schedule of a row, with the parameters that follow from the blocks."""
    if row.parameters_for_counts is None or block_nbytes is None:
        return row.schedule
    return partial(row.schedule, **row.parameters_for_counts(block_nbytes))


def _override(question: Question, pricer: Pricer) -> Override | None:
    """The decision of an argument, a policy or the environment; None if of neither."""
    collective, nbytes, asked = question[:3]
    if asked is not None:
        assert not callable(asked)
        names = (asked,) if isinstance(asked, str) else asked
        return Override(tuple((name,) for name in names), ARGUMENT)
    if question.policy is not None:
        size, world = pricer.size, pricer.world
        return of_policy(question.policy, collective, size, nbytes, world)
    return from_environment(collective, pricer.size, nbytes)


def _preferred(question: Question, override: Override, pricer: Pricer) -> Choices:
    """The choices of the first preference that can run."""
    obstacles = []
    for names in override.preferences:
        rows = []
        for name in names:
            try:
                rows.append(_checked(name, question, pricer.size))
            except AlgorithmNotApplicable as obstacle:
                obstacles.append(str(obstacle))
        if rows:
            return _choices(rows, pricer)
    asked_by = "" if override.decider == ARGUMENT else f" (from {override.decider})"
    reasons = "; ".join(obstacles)
    raise AlgorithmNotApplicable(
        (reasons or f"{question.collective}: no algorithm is named") + asked_by,
        collective=question.collective,
    )


def _checked(name: str, question: Question, size: int) -> Algorithm:
    """The row of a name, which is proved if it is the user's.

    Raises
    ------
    AlgorithmNotApplicable
        If it cannot run.
    """
    collective = question.collective
    row = find(collective, name, size)
    if question.reproducible and not row.serial:
        raise AlgorithmNotApplicable(
            f"{collective}: {name} {NOT_SERIAL}", collective=collective
        )
    if row.unproved and named(collective, row.base_name).unproved:
        prove_once(row.schedule, size, collective, question.root)
    return row


def _choices(rows: Sequence[Algorithm], pricer: Pricer) -> Choices:
    """The choice among variants of some algorithms, or the one with parameters."""
    if len(rows) == 1 and rows[0].name != rows[0].base_name:
        return Choices([pricer.price_one(rows[0])])
    return pricer.choices_among(rows)


def _of_function(
    question: Question, schedule: ScheduleFunction, pricer: Pricer
) -> Decision:
    """The decision for a schedule function that is not in the table."""
    collective, name = question.collective, _name(schedule)
    if question.reproducible:
        raise AlgorithmNotApplicable(
            f"{collective}: nothing says in which order {name} sums; name an algorithm "
            "of the table, or leave out reproducible",
            collective=collective,
        )
    prove_once(schedule, pricer.size, collective, question.root)
    row = Algorithm(collective, name, schedule, unproved=True)
    return Decision(name, schedule, ARGUMENT, pricer.price_one(row), unproved=True)


def _name(schedule: ScheduleFunction) -> str:
    """The name of a schedule function, the same in the memory of all ranks."""
    if isinstance(schedule, partial):
        parameters = [*map(repr, schedule.args)]
        parameters += [f"{key}={value!r}" for key, value in schedule.keywords.items()]
        return f"{_name(schedule.func)}({', '.join(parameters)})"
    return getattr(schedule, "__qualname__", type(schedule).__qualname__)
