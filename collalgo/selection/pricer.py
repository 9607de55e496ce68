"""The prices that a decision needs: the same on a host and on a topology."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from collalgo.algorithms.catalogue import Algorithm
from collalgo.base.cache import REMEMBERED, computing, make_room
from collalgo.schedule import ScheduleFunction
from collalgo.selection.prices import ByPrice, Choices, Priced

if TYPE_CHECKING:  # which take a while to import
    from collalgo.cost.bounds import Bound
    from collalgo.selection.policies.nccl import World


Value = TypeVar("Value")


class Ordered(Protocol):
    """An algorithm in an order of the ranks, as a candidate has it."""

    @property
    def row(self) -> Algorithm:
        """The algorithm."""

    @property
    def order(self) -> str:
        """The name of the order, "" for that of their numbers."""


class Pricer(Protocol):
    """The candidates for some ranks, with their prices."""

    @property
    def size(self) -> int:
        """The number of ranks."""

    @property
    def basis(self) -> str:
        """The origin of the prices, for users."""

    @property
    def world(self) -> "World | None":
        """The parameters of NCCL's tuning model; None if the ranks have no topology."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions on the links between the ranks, each rule once."""

    def bound(self, collective: str) -> "Bound | None":
        """The lower bound of a collective; None if not known."""

    def correction(self, collective: str, nbytes: float) -> float:
        """The measured over the predicted times of a collective; 1 if not known."""

    def applicable(
        self, collective: str, reproducible: bool = False
    ) -> tuple[list[Algorithm], dict[Algorithm, str]]:
        """The algorithms that can run, and the obstacles of the others."""

    def find(self, collective: str, name: str) -> Algorithm:
        """The row of a name, which may give parameters."""

    def priced(self, rows: Iterable[Algorithm]) -> list[Priced]:
        """All variants of some algorithms, with their prices."""

    def by_price(self, rows: Iterable[Algorithm], nbytes: int) -> ByPrice:
        """All variants of some algorithms in ascending order of their prices."""

    def price_one(self, row: Algorithm) -> Priced:
        """An algorithm with exactly its parameters, priced when the price is read."""

    def choices(
        self, collective: str, reproducible: bool = False, only: int | None = None
    ) -> Choices:
        """The choice among all algorithms, by size; computed once in a process.

        Those for one size only may take less to compute.
        """

    def private_copy(self) -> "Pricer":
        """The same ranks, with prices that no other thread computes or shares."""

    def first_choices(
        self, collective: str, reproducible: bool
    ) -> tuple[Choices, float]:
        """The choices by formulas, which are known at once, and the size they end at.

        No choice is made by formulas where prices are known at once, too.
        """

    def computed(
        self, key: Hashable, rows: list[Algorithm], compute: Callable[[], Value]
    ) -> Value:
        """Results from the prices of these ranks; see :class:`TableCache`."""

    def choices_among(
        self, rows: Sequence[Algorithm], only: int | None = None
    ) -> Choices:
        """The choice among the variants of some algorithms, by size, or for one."""

    def prove(self, row: Algorithm, schedule: ScheduleFunction, root: int) -> None:
        """Prove the schedule of a row before its first run."""

    def runnable(self, candidate: Ordered) -> Algorithm:
        """A candidate as ranks run it, in the order of ranks that it was priced in."""


class TableCache:
    """Results that are computed once from rows of the table of algorithms.

    Threads that ask at the same time wait for one of them. A value holds for the rows
    that it was made of: users add to the table.

    Parameters
    ----------
    most
        The most results that are kept, the newest.
    """

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._known: dict[Hashable, tuple[list[Algorithm], Any]] = {}

    def get(
        self, key: Hashable, rows: list[Algorithm], compute: Callable[[], Value]
    ) -> Value:
        """The value of a key, made of these rows."""
        known = self._known.get(key)
        if known is None or known[0] != rows:
            with computing:
                known = self._known.get(key)
                if known is None or known[0] != rows:
                    known = self._known[key] = list(rows), compute()
                    make_room(self._known, self._most)
        value: Value = known[1]
        return value
