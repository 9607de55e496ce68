"""Who copies long messages on a host: the ranks through shared memory, or the kernel.

The kernel copies once, from the memory of the process that sends to that of the one
that receives, where the ranks copy twice; but it needs longer to begin, and leaves what
it copies in no cache that is shared. Nobody copies what lies in memory that all ranks
have mapped, if that pays.
"""

from typing import Any, NamedTuple

from collalgo.cost.host_profile import HostProfile
from collalgo.schedule.collective import COLLECTIVES

#: Collectives in which every rank copies as much as any other. One copy by the kernel
#: takes 0.7 to 1.1 times as long as two through shared memory for the longest arrays,
#: and for others from half to twice as long: the figures of the machine tell.
EXCHANGES = ("allgather", "alltoall")

#: Those whose messages have a single reader, so that the kernel copies half as much as
#: the ranks would. What several read is copied once and then read by all, where the
#: kernel has them wait for each other at every page: broadcasts of 32 KiB to 2 MiB to 7
#: and 15 others took it 2.5 to 8 times as long, allgathers up to 2.7 times.
SINGLE_READERS = ("alltoall", "scatter", "gather")

#: Ranks that share cores wait less, as fewer of them read at once, and the fewer read,
#: the more copying is saved: allgathers of up to four with messages of 64 KiB and more
#: took the kernel 0.6 to 1.05 of the time, those of 5 to 8 ranks 0.7 to 1.3.
FEW = 4

#: An exchange is long if the arrays of all ranks take more than so many times the
#: caches, and ranks that have cores of their own do not read the same. Where they share
#: cores, what a single one reads stays in the cache of its core if it goes in waves: by
#: the kernel, alltoalls of 3 and 4 ranks took 1.05 to 1.4 times as long up to there,
#: those of 8 as long for 2 MiB each, and 0.9 times for more.
LONG_EXCHANGE, LONG_CROWDED = 1 / 4, 4

#: Collectives in which each of the others copies something of the root's. By the kernel
#: they all do so at once, as long as what they copy is in a cache.
HANDING_OUT = ("broadcast", "scatter")

#: Of arrays that take so many times the caches nothing is left there by the time that
#: it is written again. What is, and in a cache that is far away, is so dear to write
#: that two ranks which swap 4 to 16 MiB took 1.4 to 3 times as long as with two copies.
LINGERING = 4

#: A message for which it may pay to ask the kernel, in bytes; and where more than two
#: ranks with cores of their own do so at once, which takes some 4 microseconds each: 8
#: and 16 of them took alltoalls with messages of 32 KiB 1.1 to 1.3 times as long that
#: way, and with messages of 256 KiB half as long.
LONG, LONG_OF_MANY = 1 << 14, 1 << 16

#: Arrays of so many bytes on a core have left its own caches when they are written and
#: read again. Of shorter ones a line that another has read is dear to write: two ranks
#: which share them, and write before each call and read after it, took up to twice as
#: long as with copies in between.
OUTGROWN = 1 << 21

#: Of such arrays the kernel copies an exchange sooner than its figure says, which is
#: of shorter ones: two ranks of an Intel Xeon, by whose figures it took 1.02 to 1.12
#: times as long, exchanged 1 and 2 MiB in 0.8 to 0.94 of the time. So it does where
#: ranks share cores, for messages of so many bytes: there alltoalls of 3, 4 and 8 ranks
#: took 0.6 to 1 of the time, but 1.06 to 1.2 with messages of 16 to 21 KiB. So did
#: gathers with messages of 64 KiB and more (0.5 to 1.15), and scatters of 8, 4 and
#: 2 MiB and more by 3, 4 and 8 ranks (0.4 to 0.85; of less up to twice the time).
SOONER, LONG_CROWDED_MESSAGE = 1.25, 1 << 15

#: Where ranks share cores, arrays of all of them that take so many times the caches
#: have left those of a core when a result is written. To read out of several pages at
#: once what others have staged takes longer then than to write without fetching the
#: target: four ranks of an Intel Xeon took allreduces of 24 and 40 MB, in memory that
#: other work had taken out of all caches, 0.8 to 0.95 times as long in order. Where the
#: same call is made again and again, and some cache still has its arrays, four took as
#: long either way, and eight 0.95 times.
LONG_RESULT = 1 / 4


class Copying(NamedTuple):
    """How the ranks of a host have the long messages of a collective copied.

    All functions take the bytes of one rank's buffer, or an array of such numbers.
    """

    collective: str
    size: int
    machine: HostProfile

    def held(self, nbytes: Any) -> Any:
        """The bytes of the arrays of all ranks."""
        return 2 * self.size * nbytes

    def lingers(self, nbytes: Any) -> Any:
        """Whether arrays are in some cache when they are written and read again."""
        return self.held(nbytes) < LINGERING * self.machine.cache

    def is_read_abreast(self, nbytes: Any) -> Any:
        """Whether what others have staged is read out of several pages at once."""
        is_short = self.held(nbytes) < LONG_RESULT * self.machine.cache
        return (not self._is_crowded) | is_short

    def is_shared(self, nbytes: Any) -> Any:
        """Whether ranks had better use each other's arrays, if they have mapped them.

        They must not fit the caches that each core has for itself. What a root hands
        out takes as long either way, or longer.
        """
        return (self.collective not in HANDING_OUT) & self._outgrow(nbytes)

    def is_at_once(self, nbytes: Any) -> Any:
        """Whether an exchange goes in one piece: hardly anything of it is read again.

        What is read again goes in waves, which keep it in the caches.
        """
        return self._is_long_exchange(nbytes) | self.is_exchanged_by_kernel(nbytes)

    def is_exchanged_by_kernel(self, nbytes: Any) -> Any:
        """Whether the kernel had better copy the messages of an exchange."""
        if self.collective not in EXCHANGES:
            return False
        if not self._has_one_reader:
            may = self._is_crowded and self.size <= FEW
            may &= self._kernel_is_faster(SOONER)
            return may & (self._message(nbytes) >= LONG_OF_MANY)
        faster = self._is_long_exchange(nbytes) | self._kernel_is_faster()
        if self._is_crowded:
            sooner = self._message(nbytes) >= LONG_CROWDED_MESSAGE
        else:
            sooner = self._outgrow(nbytes)
        faster |= sooner & self._kernel_is_faster(SOONER)
        return faster & self._is_worth_asking(nbytes)

    def is_handed_out_by_kernel(self, nbytes: Any) -> Any:
        """Whether the kernel had better copy what a root sends or gathers in a step."""
        if self._is_crowded:
            may = self._is_long_of_crowd(nbytes) & self._kernel_is_faster(SOONER)
        else:
            # A gather of two ranks is a scatter the other way.
            alone = self.collective == "gather" and self.size == 2
            may = alone or self.collective in HANDING_OUT
            may &= self._has_one_reader and self._kernel_is_faster()
            may &= self.held(nbytes) <= self.machine.cache
        return may & self._is_worth_asking(nbytes)

    def _is_long_of_crowd(self, nbytes: Any) -> Any:
        """Whether ranks that share cores scatter or gather more than a cache keeps."""
        if self.collective == "scatter":
            return self.held(nbytes) >= self.machine.cache
        is_long = self._message(nbytes) >= LONG_OF_MANY
        return (self.collective == "gather") & is_long

    @property
    def _is_crowded(self) -> bool:
        return self.size > self.machine.cores

    @property
    def _has_one_reader(self) -> bool:
        """Whether a message has one reader, who does not find it in its cache anyway.

        Of two ranks that share a core, each has what the other stages.
        """
        both = self.size == 2 and not self._is_crowded
        return both or self.collective in SINGLE_READERS

    def _is_long_exchange(self, nbytes: Any) -> Any:
        may = self.collective in EXCHANGES
        may &= self._has_one_reader or self._is_crowded
        stays = self._is_crowded and self._has_one_reader
        long = (LONG_CROWDED if stays else LONG_EXCHANGE) * self.machine.cache
        return may & (self.held(nbytes) > long)

    def _outgrow(self, nbytes: Any) -> Any:
        """Whether arrays have left a core's own caches when they are read again."""
        return self.held(nbytes) >= OUTGROWN * min(self.size, self.machine.cores)

    def _kernel_is_faster(self, times: float = 1.0) -> bool:
        """Whether the kernel copies faster than its figure says, so many times."""
        return self.machine.fetch < times * self.machine.exchange

    def _is_worth_asking(self, nbytes: Any) -> Any:
        """Whether messages are so long that to ask takes little of the time."""
        few = self.size == 2 or self._is_crowded
        return self._message(nbytes) >= (LONG if few else LONG_OF_MANY)

    def _message(self, nbytes: Any) -> Any:
        """The bytes of a message."""
        return nbytes // (self.size if COLLECTIVES[self.collective].blocks else 1)
