"""Prices that a thread finds while the calls that need them are decided by formulas."""

from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from time import monotonic

from collalgo.base.cache import computing
from collalgo.base.threads import ThreadRefused, start
from collalgo.errors import CollalgoError
from collalgo.selection.decide import Question, decisions
from collalgo.selection.pricer import Pricer

#: Seconds for which no prices are sought, as ranks recover, or others join soon.
CALM_SECONDS = 1.0


class PricesAhead:
    """The prices of some questions, and the thread that finds them.

    Parameters
    ----------
    make
        Makes a pricer of the ranks, for this alone.

    Attributes
    ----------
    pricer : Pricer or None
        It, with the prices of all questions once they are known.
    """

    def __init__(self, make: Callable[[], Pricer]):
        self.pricer: Pricer | None = None
        self._make = make
        self._questions: dict[Question, None] = {}
        self._known, self._begin = 0, monotonic() + CALM_SECONDS
        self._thread: Thread | None = None

    def add(self, question: Question) -> None:
        """Find the prices for a question, from a later :meth:`are_known` on."""
        if question.algorithm is None:  # else no formula decides
            asked = question._replace(by_formulas=False, block_nbytes=None)
            self._questions[asked] = None

    def are_known(self) -> bool:
        """Whether all prices are known; if not, a thread finds them soon."""
        is_busy = self._thread is not None and self._thread.is_alive()
        if is_busy or monotonic() < self._begin:
            return False
        asked = list(self._questions)[self._known :]
        if not asked:
            return True
        self._thread = Thread(
            target=self._find, args=(asked,), name="collalgo prices", daemon=True
        )
        try:
            start(self._thread)
        except ThreadRefused:
            self._find(asked)
        return False

    def _find(self, asked: list[Question]) -> None:
        """Find the prices of some questions, and prove what they choose.

        Calls raise the errors again.
        """
        with computing.without_lock():
            self.pricer = self.pricer or self._make()
            for question in asked:
                self._known += 1
                with suppress(CollalgoError):
                    chosen = decisions(question, self.pricer).at(question.nbytes)
                    if chosen.unproved:
                        row, schedule = chosen.candidate.row, chosen.schedule
                        self.pricer.prove(row, schedule, question.root)
