"""Who copies long messages on a host: the ranks through shared memory, or the kernel.

The kernel copies once, from the memory of the process that sends to that of the one
that receives, where the ranks copy twice; but it needs longer to begin, and leaves what
it copies in no cache that is shared.
"""

from typing import Any, NamedTuple

from collalgo.collective import COLLECTIVES
from collalgo.machine import Machine

#: Collectives in which every rank copies as much as any other. One copy by the kernel
#: takes a fifth as long as two through shared memory for the longest arrays, and for
#: others from half to twice as long: the figures of the machine tell.
EXCHANGES = ("allgather", "alltoall")

#: Those whose messages have a single reader, so that the kernel copies half as much as
#: the ranks would. That pays even where they share cores; what several read is copied
#: faster from shared memory there, as the first copy leaves it in a cache.
SINGLE_READERS = ("alltoall",)

#: Collectives in which each of the others copies something of the root's. By the kernel
#: they all do so at once, as long as what they copy is in a cache.
HANDING_OUT = ("broadcast", "scatter")

#: A message for which it may pay to ask the kernel, in bytes.
LONG = 1 << 14


class Copying(NamedTuple):
    """How the ranks of a host have the long messages of a collective copied.

    All functions take the bytes of one rank's buffer, or an array of such numbers.
    """

    collective: str
    size: int
    machine: Machine

    def held(self, nbytes: Any) -> Any:
        """The bytes of the arrays of all ranks."""
        return 2 * self.size * nbytes

    def is_at_once(self, nbytes: Any) -> Any:
        """Whether an exchange goes in one piece: hardly anything of it is read again.

        What is read again goes in waves, which keep it in the caches.
        """
        return self._is_long_exchange(nbytes) | self.is_exchanged_by_kernel(nbytes)

    def is_exchanged_by_kernel(self, nbytes: Any) -> Any:
        """Whether the kernel had better copy the messages of an exchange."""
        crowded = self.size > self.machine.cores
        may = self.collective in EXCHANGES
        may &= not crowded or self.collective in SINGLE_READERS
        return may & (self._is_long_exchange(nbytes) | self._is_worth_asking(nbytes))

    def is_handed_out_by_kernel(self, nbytes: Any) -> Any:
        """Whether the kernel had better copy what a root hands out in one step."""
        # A gather of two ranks is a scatter the other way.
        alone = self.collective == "gather" and self.size == 2
        may = alone or self.collective in HANDING_OUT
        may &= self.size <= self.machine.cores
        in_cache = self.held(nbytes) <= self.machine.cache
        return may & in_cache & self._is_worth_asking(nbytes)

    def _is_long_exchange(self, nbytes: Any) -> Any:
        exchange = self.collective in EXCHANGES
        return exchange & (4 * self.held(nbytes) > self.machine.cache)

    def _is_worth_asking(self, nbytes: Any) -> Any:
        parts = self.size if COLLECTIVES[self.collective].blocks else 1
        faster = self.machine.fetch < self.machine.exchange
        return faster & (nbytes // parts >= LONG)
