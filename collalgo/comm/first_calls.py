"""The first calls of ranks on several hosts, which need not wait for prices."""

from functools import cached_property
from weakref import WeakSet

from collalgo.comm.prices_ahead import PricesAhead
from collalgo.comm.program_cache import ProgramCache


class FirstCalls(ProgramCache):
    """The programs of one rank, of which formulas may decide on the first calls."""

    @cached_property
    def _groups(self) -> WeakSet["FirstCalls"]:
        """Those of groups of the ranks that began by formulas, too."""
        return WeakSet()

    def begin_by_formulas(self) -> None:
        """On several hosts let formulas decide on short calls, until prices are known.

        All ranks call it before their first call.
        """
        if self._placed is not None:
            self._ahead = PricesAhead(self.pricer.private_copy)

    def lead(self, group: "FirstCalls") -> None:
        """Let formulas decide on a new group of the ranks, for as long as on these."""
        if self._ahead is not None:
            group.begin_by_formulas()
            self._groups.add(group)

    def are_prices_known(self) -> bool:
        """Whether formulas decide, and the prices of all calls so far are known.

        If they are not, a thread finds them from now on; the same for groups.
        """
        begun = self._begun()
        return bool(begun) and all(each.are_known() for each in begun)

    def _begun(self) -> list[PricesAhead]:
        """What finds the prices of calls on which formulas decide, also of groups."""
        mine = [] if self._ahead is None else [self._ahead]
        return mine + [one for group in list(self._groups) for one in group._begun()]

    def use_prices(self) -> None:
        """Let prices decide on all further calls, also those of groups.

        All ranks call it between two.
        """
        if self._ahead is not None and self._ahead.pricer is not None:
            self.__dict__["pricer"] = self._ahead.pricer
        self._decide_again()
        for group in list(self._groups):
            group.use_prices()
        self._groups.clear()
