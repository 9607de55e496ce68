"""The steps of an algorithm for one rank."""

from collections.abc import Iterable
from functools import partial
from itertools import islice

from collalgo.base.source_lines import is_of_users, line_of_generator, place_of
from collalgo.errors import CollalgoError, ScheduleError
from collalgo.schedule.group import Group
from collalgo.schedule.steps import ScheduleFunction, Step, Steps, as_step

#: The most steps of a rank: more than a ring of the largest world takes.
MOST_STEPS = 1 << 20


def begin(
    algorithm: ScheduleFunction,
    rank: int,
    size: int,
    root: int = 0,
    **parameters: object,
) -> Steps:
    """The steps that ``algorithm`` yields for one rank; the root is at position 0."""
    group = Group.flat(rank, size)
    if root:
        group = group.rotated(root)
    return algorithm(group, **parameters)


def trace(
    algorithm: ScheduleFunction,
    rank: int,
    size: int,
    root: int = 0,
    **parameters: object,
) -> list[Step]:
    """All steps of ``algorithm`` for one rank; the root is at position 0.

    Raises
    ------
    ScheduleError
        If it yields something else, does not end, or raises; the message has the line.
    """
    steps = None
    try:
        steps = begin(algorithm, rank, size, root, **parameters)
        return _all_steps(steps)
    except ScheduleError as error:
        line = line_of_generator(steps)
        place = f" (at {line})" if line else _line(error, algorithm)
        text = f"{name_of(algorithm)}: rank {rank} of {size}: {error}{place}"
        raise ScheduleError(text, rank=rank) from None
    except CollalgoError:
        raise
    except Exception as error:
        raise ScheduleError(
            f"{name_of(algorithm)}: rank {rank} of {size} raises "
            f"{type(error).__name__}: {error}{_line(error, algorithm)}",
            rank=rank,
        ) from error


def _all_steps(steps: Steps) -> list[Step]:
    if not isinstance(steps, Iterable):
        raise ScheduleError(
            f"it returned {steps!r:.80}; write it as a function that yields steps"
        )
    found = list(map(as_step, islice(steps, MOST_STEPS)))
    if len(found) == MOST_STEPS:
        raise endless()
    return found


def endless() -> ScheduleError:
    """The error of an algorithm that yields too many steps."""
    return ScheduleError(
        f"it yields {MOST_STEPS} steps and does not end; end it with its last step"
    )


def _line(error: Exception, algorithm: ScheduleFunction) -> str:
    """The user's line that raised, or where the function is defined, if it has one."""
    place = place_of(error)
    if place is not None and is_of_users(place[0]):
        return f" (at {place[0]}:{place[1]})"
    code = getattr(algorithm, "__code__", None)
    return f" (at {code.co_filename}:{code.co_firstlineno})" if code else ""


def name_of(algorithm: ScheduleFunction) -> str:
    """The name of a schedule, which is the same in the memory of all ranks.

    That is its label or the name of its row, if it has one, else that of its function
    with the parameters.
    """
    row = getattr(algorithm, "__self__", None)
    if label := getattr(algorithm, "label", None) or getattr(row, "name", None):
        return str(label)
    if isinstance(algorithm, partial):
        parameters = [*map(repr, algorithm.args)]
        parameters += [f"{key}={value!r}" for key, value in algorithm.keywords.items()]
        return f"{name_of(algorithm.func)}({', '.join(parameters)})"
    return str(getattr(algorithm, "__qualname__", type(algorithm).__qualname__))
