"""The one table of algorithms: tests, selection, bench, docs and the CLI iterate it."""

import ast
from collections.abc import Callable, Collection, Sequence
from typing import Any

from collalgo.algorithms.parameters import COMMON, OWN
from collalgo.algorithms.row import (
    Algorithm,
    LaneCount,
    Unfit,
    fits,
    no_obstacle,
    one_lane,
    own_parameters,
)
from collalgo.base import plugins
from collalgo.errors import AlgorithmNotApplicable
from collalgo.schedule import ScheduleFunction
from collalgo.schedule.collective import COLLECTIVES

ALGORITHMS: list[Algorithm] = []


def add(
    collective: str,
    name: str,
    function: ScheduleFunction,
    *,
    obstacle: Callable[[int], str | None] = no_obstacle,
    keeps_rank_order: bool = False,
    hierarchical: bool = False,
    parameters_for_counts: Callable[[Sequence[int]], dict[str, Any]] | None = None,
    unproved: bool = False,
    lane_count: LaneCount = one_lane,
    unfit: Unfit = fits,
    by_name: bool = False,
    **parameters: Any,
) -> Algorithm:
    """Add a row to the table; see :class:`Algorithm`.

    The ranges of its parameters are those of :mod:`collalgo.algorithms.parameters`.
    """
    own = {name: OWN[name] for name in own_parameters(function) if name in OWN}
    row = Algorithm(
        collective,
        name,
        function,
        tuple(parameters.items()),
        obstacle,
        keeps_rank_order,
        hierarchical,
        parameters_for_counts,
        unproved,
        tuple({**own, **COMMON}.items()),
        lane_count,
        unfit,
        by_name,
    )
    ALGORITHMS.append(row)
    return row


def algorithm(
    collective: str,
    name: str,
    *,
    obstacle: Callable[[int], str | None] = no_obstacle,
    **parameters: Any,
) -> Callable[[ScheduleFunction], ScheduleFunction]:
    """Add the decorated schedule function to the table, under a given name.

    It can be used at once as ``algorithm=name``, is priced by :func:`collalgo.select`,
    and is proved before it moves a byte.

    Parameters
    ----------
    collective
        The collective: ``"allreduce"``, ``"broadcast"``, ...
    name
        The name of the algorithm.
    obstacle
        A function of the number of ranks: the reason why the algorithm cannot run with
        it, as ``"needs an even number of ranks"``, or None.
    **parameters
        Passed on to the function, unless a call gives others.

    Raises
    ------
    ValueError
        If there is no such collective, or another algorithm has the name.

    Examples
    --------
    >>> from collalgo import algorithm, recv, send, verify
    >>> @algorithm("broadcast", "relay")
    ... def relay(group):
    ...     for rank in range(1, group.size):
    ...         if group.rank == rank - 1:
    ...             yield send(group.right, group.whole)
    ...         elif group.rank == rank:
    ...             yield recv(group.left, group.whole)
    >>> print(verify("relay", size=3))
    broadcast of 3 ranks: 2 steps, 2 n bytes, 2 links, same bits on every rank
    """
    if collective not in COLLECTIVES:
        raise ValueError(
            f"unknown collective {collective!r}; choose one of {', '.join(COLLECTIVES)}"
        )
    if not name.isidentifier():
        raise ValueError(f"{name!r} is not a name; use letters, digits and underscores")

    def register(function: ScheduleFunction) -> ScheduleFunction:
        own = tuple(parameters.items())
        enter(Algorithm(collective, name, function, own, obstacle, unproved=True))
        return function

    return register


def enter(row: Algorithm) -> None:
    """Put a user's algorithm into the table, in place of its earlier version.

    Raises
    ------
    ValueError
        If another algorithm has the name.
    """
    for other in candidates(row.collective):
        if other.name == row.name:
            if not (other.unproved and _same(other.function, row.function)):
                raise ValueError(
                    f"{row.collective} has an algorithm {row.name!r} already; choose "
                    "another name"
                )
            ALGORITHMS.remove(other)
    ALGORITHMS.append(row)


def _same(old: ScheduleFunction, new: ScheduleFunction) -> bool:
    """Whether a function is a new version of another, as after a reload of its file."""
    return (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)


#: The advice where no name is close to an unknown one.
YOUR_OWN = "import the file that registers it, or pass --load, or choose one of "


def candidates(collective: str) -> list[Algorithm]:
    """All rows for ``collective``, in the order of the table."""
    return [row for row in ALGORITHMS if row.collective == collective]


def named(collective: str, name: str) -> Algorithm:
    """The row for ``name``, which may give parameters: ``"k_nomial(radix=8)"``.

    Raises
    ------
    AlgorithmNotApplicable
        If there is no such row, or it has no such parameter.
    """
    plain, parameters = parse(name)
    rows = {row.name: row for row in candidates(collective)}
    if plain not in rows:
        raise AlgorithmNotApplicable(
            f"{collective}: there is no algorithm {name!r}; {_advice(plain, rows)}"
            f"{', '.join(rows)}",
            collective=collective,
        )
    return rows[plain].with_parameters(parameters) if parameters else rows[plain]


def _advice(name: str, rows: Collection[str]) -> str:
    """What to do about an unknown name, before a list of the rows of its collective."""
    if name.endswith(".py"):
        return "import a file first (in commands by --load), then name one of "
    if name in plugins.names(plugins.ALGORITHMS):
        return "call collalgo.load_plugins() on all ranks first, or choose one of "
    if others := [row.collective for row in ALGORITHMS if row.name == name]:
        return f"it is an algorithm of {', '.join(others)}; choose one of "
    from difflib import get_close_matches  # which takes a while to import

    meant = get_close_matches(name, rows, 1)
    return f"did you mean {meant[0]!r}? There are " if meant else YOUR_OWN


def find(collective: str, name: str, size: int) -> Algorithm:
    """The row for ``name`` if it can run with ``size`` ranks.

    Raises
    ------
    AlgorithmNotApplicable
        If there is no such row, or it cannot.
    """
    row = named(collective, name)
    if obstacle := row.size_obstacle(size):
        able = [r.name for r in candidates(collective) if r.obstacle(size) is None]
        obstacle = obstacle.removeprefix("it ")  # as a user may write
        raise AlgorithmNotApplicable(
            f"{collective}: {row.name} {obstacle}; choose one of {', '.join(able)}",
            collective=collective,
        )
    if obstacle := row.obstacle(size):
        raise AlgorithmNotApplicable(
            f"{collective}: {row.name}: {obstacle}", collective=collective
        )
    return row


def parse(name: str) -> tuple[str, dict[str, Any]]:
    """The parts of ``name(key=value, ...)``; values are literals of Python.

    >>> parse("ring(segments=4)")
    ('ring', {'segments': 4})
    """
    plain, bracket, rest = name.partition("(")
    if not bracket:
        return name, {}
    try:
        call = ast.parse(f"f({rest}", mode="eval").body
        assert isinstance(call, ast.Call)
        assert isinstance(call.func, ast.Name)
        assert not call.args
        assert all(k.arg for k in call.keywords)
        assert len({k.arg for k in call.keywords}) == len(call.keywords)
        return plain, {
            str(k.arg): _frozen(ast.literal_eval(k.value)) for k in call.keywords
        }
    except (AssertionError, SyntaxError, ValueError, MemoryError, RecursionError):
        raise AlgorithmNotApplicable(
            f"{name!r} is not an algorithm's name; write name(parameter=value, ...), "
            "each parameter once"
        ) from None


def _frozen(value: Any) -> Any:
    """A literal with tuples in place of lists, to be hashable."""
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def is_users(row: Algorithm) -> bool:
    """Whether a row of the table, or a variant of one, is the user's."""
    known = {one.name: one for one in candidates(row.collective)}
    return row.unproved and row.base_name in known and known[row.base_name].unproved


def shortened(name: str) -> str:
    """A name with its long parameters abbreviated.

    >>> shortened("hierarchical(hosts=(8, 8, 8, 8, 8))")
    'hierarchical(hosts=5 x 8)'
    >>> shortened("multi_ring(cycles=((0, 1, 2), (2, 1, 0)))")
    'multi_ring(cycles=2 of 3)'
    """
    try:
        plain, parameters = parse(name)
    except AlgorithmNotApplicable:  # a user's function with positional arguments
        return name
    words = []
    for key, value in parameters.items():
        text = repr(value)
        if isinstance(value, tuple) and value and isinstance(value[0], tuple):
            text = f"{len(value)} of {len(value[0])}"
        elif isinstance(value, tuple) and len(value) > 4 and len(set(value)) == 1:
            text = f"{len(value)} x {value[0]}"
        words.append(f"{key}={text}")
    return f"{plain}({', '.join(words)})" if words else plain
