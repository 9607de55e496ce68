"""The lines of the explanation of a selection."""

from collections.abc import Iterator, Sequence

from collalgo.algorithms.table import is_users
from collalgo.base.units import human_time
from collalgo.cost.lower_bound import Bound, compared
from collalgo.selection.candidate import AS_CHEAP, Candidate


def beside_bound(bound: Bound | None, seconds: float, nbytes: int) -> Iterator[str]:
    """A time beside the bound, and the least time in rounds if that is more."""
    if bound is None or not (least := bound.seconds(nbytes)):
        return
    yield compared(seconds, bound, nbytes)
    in_rounds = bound.in_rounds(nbytes)
    if seconds / in_rounds < seconds / least * (1 - AS_CHEAP):
        yield (
            f"{seconds / in_rounds:.2f} times the least in rounds of "
            f"{human_time(in_rounds)}: links wait in the first and the last steps"
        )


def prices(shown: Sequence[Candidate], has_more: bool) -> Iterator[str]:
    """The prices of some candidates, and whether there are others.

    Their number is not known before all are priced, as equal ones are listed once.
    """
    width = max(len(one.words) for one in shown)
    for one in shown:
        yield f"  {one.words:{width}} {one.seconds * 1e6:12.2f} us{one.mark}"
    if has_more:
        yield "  and other algorithms, variants or orders of ranks"


def obstacles(unable: Sequence[Candidate]) -> Iterator[str]:
    """The candidates that cannot run, but those of users, by their obstacles."""
    names_of: dict[str, list[str]] = {}
    for one in unable:
        if one.obstacle is not None and not is_users(one.row):
            names_of.setdefault(one.obstacle, []).append(one.algorithm)
    for why, names in names_of.items():
        yield f"  {', '.join(names)}: {why}"
