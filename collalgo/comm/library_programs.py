"""The programs of the calls that the library makes for those of users."""

from functools import cached_property

import numpy as np

from collalgo._kernels.engine.program import Program
from collalgo._kernels.engine.transport.transport import PART_OF_NEXT, WHOLE_CALL
from collalgo.base.cache import recalled
from collalgo.comm.call_record import record_of
from collalgo.comm.call_text import EXCHANGE
from collalgo.comm.program_cache import ProgramCache
from collalgo.engine.call import Call


class LibraryPrograms(ProgramCache):
    """The programs of one rank, with those of the calls of the library.

    :class:`Program` has the values of ``counted``.
    """

    @cached_property
    def _exchanges(self) -> dict[tuple[str, int, int], Program]:
        return {}

    def _decide_again(self) -> None:
        super()._decide_again()
        self._exchanges.clear()

    def named(self, call: Call, name: str, counted: int) -> Program:
        """A program that the library runs for another call, under a name for that."""
        kind = self.kind(call)
        return kind.program_named(call.count, call.counts, name, counted)

    def exchange(
        self, call: Call, nbytes: int, name: str, counted: int = WHOLE_CALL
    ) -> Program:
        """A program that exchanges ``nbytes`` of each rank among all, for a call.

        It is compared as that call by an algorithm of that name.
        """
        carrier = Call("allgather", np.dtype(np.uint8), nbytes)
        template = self.get(*carrier).template
        count = call.count if call.counts is None else sum(call.counts)
        counts = call.layout(self.size).counts
        record = record_of(call, name, count, counts)
        program = Program(template, None, 0, record, counted=counted)
        program.fill_layout(carrier.layout(self.size))
        return program

    def exchange_for(
        self, call: str, nbytes: int, counted: int = PART_OF_NEXT
    ) -> Program:
        """A program by which the library exchanges ``nbytes`` of each rank for a call.

        The ranks compare the name of that call.
        """
        return recalled(self._exchanges, (call, nbytes, counted), self._exchange_for)

    def _exchange_for(self, key: tuple[str, int, int]) -> Program:
        name, nbytes, counted = key
        call = Call("allgather", np.dtype(np.uint8), nbytes)
        return self.exchange(call, nbytes, EXCHANGE + name, counted)
