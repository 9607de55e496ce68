"""The copy policy of a host: copies through shared memory, or by the kernel.

The kernel copies once, from the memory of the sender to that of the receiver, where
copies through shared memory are two; but it has a longer start-up time, and leaves the
data in no shared cache. Data in memory that all ranks have mapped needs no copy, where
that is faster.
"""

from functools import lru_cache
from math import ceil, floor
from typing import Any, NamedTuple

import numpy as np

from collalgo.base.cache import REMEMBERED
from collalgo.cost.by_size import BySize
from collalgo.cost.host_profile import HostProfile
from collalgo.engine.plan.copying import Copying
from collalgo.schedule.collective import COLLECTIVES

#: Collectives in which all ranks copy equally much. One copy by the kernel takes 0.7 to
#: 1.1 times as long as two through shared memory for the longest arrays, and from half
#: to twice as long for others: the host profile decides.
EXCHANGES = ("allgather", "alltoall")

#: Collectives whose messages have a single reader, so that the kernel copies half as
#: much as the ranks would. A message with several readers is copied once and then read
#: by all, where the kernel makes the readers wait for each other at every page:
#: broadcasts of 32 KiB to 2 MiB to 7 and 15 other ranks took 2.5 to 8 times as long by
#: the kernel, allgathers up to 2.7 times.
SINGLE_READERS = ("alltoall", "scatter", "gather")

#: Ranks that share cores wait less, as fewer of them read at once; and the fewer ranks
#: read, the more copies are saved: allgathers of up to four ranks with messages of
#: 64 KiB and more took the kernel 0.6 to 1.05 of the time, those of 5 to 8 ranks 0.7 to
#: 1.3.
FEW = 4

#: An exchange is long if the arrays of all ranks exceed the caches by this factor, and
#: ranks with cores of their own do not read the same data. Where ranks share cores,
#: data with a single reader stays in the cache of its core if it is sent in chunks: by
#: the kernel, alltoalls of 3 and 4 ranks took 1.05 to 1.4 times as long up to there,
#: those of 8 ranks as long for 2 MiB each, and 0.9 times for more.
LONG_EXCHANGE, LONG_CROWDED = 1 / 4, 4

#: Collectives in which each of the other ranks copies data of the root. By the kernel
#: all ranks copy at once, as long as the data is in a cache.
HANDING_OUT = ("broadcast", "scatter")

#: Arrays that exceed the caches by this factor have left them before they are written
#: again. Writing to a line in the cache of another core is so slow that two ranks which
#: swap 4 to 16 MiB took 1.4 to 3 times as long as with two copies.
LINGERING = 4

#: The least bytes of a message for which a copy by the kernel may pay; and the least if
#: more than two ranks with cores of their own copy at once, which takes some 4
#: microseconds each: 8 and 16 ranks took alltoalls with messages of 32 KiB 1.1 to 1.3
#: times as long by the kernel, and with messages of 256 KiB half as long.
LONG, LONG_OF_MANY = 1 << 14, 1 << 16

#: Arrays of this many bytes per core have left its private caches when they are written
#: and read again. Writing a line of a shorter array that another core has read is slow:
#: two ranks which share such arrays, write before each call and read after it, took up
#: to twice as long as with copies in between.
OUTGROWN = 1 << 21

#: The kernel copies an exchange of such arrays this much faster than the profile says,
#: which is measured with shorter ones: two ranks of an Intel Xeon, by whose profile it
#: took 1.02 to 1.12 times as long, exchanged 1 and 2 MiB in 0.8 to 0.94 of the time.
#: The same holds where ranks share cores, for messages of this many bytes: alltoalls
#: of 3, 4 and 8 ranks took 0.6 to 1 of the time, but 1.06 to 1.2 with messages of 16
#: to 21 KiB. So did gathers with messages of 64 KiB and more (0.5 to 1.15), and
#: scatters of 8, 4 and 2 MiB and more by 3, 4 and 8 ranks (0.4 to 0.85; of less up to
#: twice the time).
SOONER, LONG_CROWDED_MESSAGE = 1.25, 1 << 15

#: Where two ranks with cores of their own had a profile with which both ways take as
#: long, exchanges with messages of this many bytes took 0.75 to 0.9 of the time by the
#: kernel, up to 1 MiB; those of a root took 0.85 to 1 of it from twice as many bytes
#: on, but 1.2 to 1.6 times as long before and after.
LONG_OF_TWO = 1 << 16

#: Where ranks share cores, arrays of all ranks that exceed the caches by this factor
#: have left those of a core when a result is written. Reading staged data from several
#: pages at once then takes longer than writing without fetching the target: four ranks
#: of an Intel Xeon took allreduces of 24 and 40 MB, in memory that other work had
#: evicted from all caches, 0.8 to 0.95 times as long in order. Where the same call is
#: repeated, and some cache still has its arrays, four ranks took as long either way,
#: and eight 0.95 times.
LONG_RESULT = 1 / 4


class CopyMethod(NamedTuple):
    """The copy methods of a call.

    Attributes
    ----------
    copying : Copying
        The copying of messages and results.
    at_once : bool
        Whether messages are sent whole, not in slices.
    handed_out : bool
        Whether the kernel copies from or to the root, if the schedule has one step.
    """

    copying: Copying
    at_once: bool
    handed_out: bool

    def by_kernel(self) -> "CopyMethod":
        """The method by which the kernel copies from or to the root."""
        return self._replace(copying=self.copying._replace(fetched=True), at_once=True)


class CopyPolicy(NamedTuple):
    """The copy method for the long messages of a collective on a host.

    All methods take the bytes of the buffer of one rank, or an array of such numbers.
    """

    collective: str
    size: int
    profile: HostProfile

    @lru_cache(maxsize=REMEMBERED)  # noqa: B019 (of values, not of objects)
    def by_size(self) -> BySize[CopyMethod]:
        """The methods for all sizes."""
        return BySize.from_borders(self.borders, self.method)

    @property
    def borders(self) -> list[int]:
        """The sizes from which on another method may be the best, the first 0.

        They are few, where a table of all sizes would delay the first call.
        """
        # Long: one line for each limit that a size is compared with.
        cache, cores = self.profile.cache, min(self.size, self.profile.cores)
        held = {
            LONG_EXCHANGE * cache,
            LONG_RESULT * cache,
            cache,
            LONG_CROWDED * cache,
            LINGERING * cache,
            OUTGROWN * cores,
        }
        messages = {
            LONG,
            LONG_CROWDED_MESSAGE,
            LONG_OF_MANY,
            LONG_OF_TWO,
            2 * LONG_OF_TWO,
        }
        of_rank = {limit / self._arrays for limit in held}
        found = {0, *map(ceil, of_rank), *(floor(limit) + 1 for limit in of_rank)}
        found |= {limit * self._message_count for limit in messages}
        return sorted(found)

    def method(self, nbytes: int) -> CopyMethod:
        """The method for a size."""
        copying = (
            self.is_exchanged_by_kernel(nbytes),
            self.held(nbytes) >= self.profile.cache,
            self.is_shared(nbytes),
            self.stays_cached(nbytes),
            self.is_interleaved(nbytes),
        )
        at_once = self.is_at_once(nbytes)
        handed_out = self.is_rooted_copy_by_kernel(nbytes)
        return CopyMethod(Copying(*map(bool, copying)), bool(at_once), bool(handed_out))

    def held(self, nbytes: Any) -> Any:
        """The bytes of the arrays of all ranks."""
        return self._arrays * nbytes

    @property
    def _arrays(self) -> int:
        """The number of arrays of all ranks: an input and an output of each."""
        return 2 * self.size

    def stays_cached(self, nbytes: Any) -> Any:
        """Whether arrays are still in a cache when written and read again."""
        return self.held(nbytes) < LINGERING * self.profile.cache

    def is_interleaved(self, nbytes: Any) -> Any:
        """Whether staged data is read from several pages at once."""
        is_short = self.held(nbytes) < LONG_RESULT * self.profile.cache
        return (not self._is_crowded) | is_short

    def is_shared(self, nbytes: Any) -> Any:
        """Whether ranks should use the arrays of each other in place, if mapped.

        That pays for arrays larger than the private caches of a core, and not for
        broadcasts and scatters, which take as long or longer.
        """
        return (self.collective not in HANDING_OUT) & self._outgrow(nbytes)

    def is_at_once(self, nbytes: Any) -> Any:
        """Whether an exchange is sent whole, as hardly any of its data is read again.

        Data that is read again is sent in chunks, which stay in the caches.
        """
        return self._is_long_exchange(nbytes) | self.is_exchanged_by_kernel(nbytes)

    def is_exchanged_by_kernel(self, nbytes: Any) -> Any:
        """Whether the kernel should copy the messages of an exchange."""
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
            of_two = self.size == 2
            sooner = self._outgrow(nbytes)
            sooner |= of_two & (self._message(nbytes) >= LONG_OF_TWO)
        faster |= sooner & self._kernel_is_faster(SOONER)
        return faster & self._is_long_enough(nbytes)

    def is_rooted_copy_by_kernel(self, nbytes: Any) -> Any:
        """Whether the kernel should copy the messages from or to a root."""
        if self._is_crowded:
            may = self._is_long_of_crowd(nbytes) & self._kernel_is_faster(SOONER)
        else:
            # A gather of two ranks is a scatter in reverse.
            alone = self.collective == "gather" and self.size == 2
            may = alone or self.collective in HANDING_OUT
            may &= self._has_one_reader & self._kernel_is_faster_from_root(nbytes)
            may &= self.held(nbytes) <= self.profile.cache
        return may & self._is_long_enough(nbytes)

    def _is_long_of_crowd(self, nbytes: Any) -> Any:
        """Whether ranks that share cores scatter or gather more than the cache size."""
        if self.collective == "scatter":
            return self.held(nbytes) >= self.profile.cache
        is_long = self._message(nbytes) >= LONG_OF_MANY
        return (self.collective == "gather") & is_long

    @property
    def _is_crowded(self) -> bool:
        return self.size > self.profile.cores

    @property
    def _has_one_reader(self) -> bool:
        """Whether a message has one reader, whose cache does not have it already.

        Two ranks that share a core share its cache.
        """
        both = self.size == 2 and not self._is_crowded
        return both or self.collective in SINGLE_READERS

    def _is_long_exchange(self, nbytes: Any) -> Any:
        may = self.collective in EXCHANGES
        may &= self._has_one_reader or self._is_crowded
        stays = self._is_crowded and self._has_one_reader
        long = (LONG_CROWDED if stays else LONG_EXCHANGE) * self.profile.cache
        return may & (self.held(nbytes) > long)

    def _outgrow(self, nbytes: Any) -> Any:
        """Whether arrays have left the private caches of a core when read again."""
        return self.held(nbytes) >= OUTGROWN * min(self.size, self.profile.cores)

    def _kernel_is_faster(self, times: float = 1.0) -> bool:
        """Whether the kernel is faster than shared memory, sped up by a factor."""
        return self.profile.fetch < times * self.profile.exchange

    def _kernel_is_faster_from_root(self, nbytes: Any) -> Any:
        """Whether the kernel is faster for the messages of a rank with its own core."""
        is_long = self._message(nbytes) >= 2 * LONG_OF_TWO
        sooner = (
            is_long
            & np.logical_not(self._outgrow(nbytes))
            & self._kernel_is_faster(SOONER)
        )
        return sooner | self._kernel_is_faster(1 / SOONER)

    def _is_long_enough(self, nbytes: Any) -> Any:
        """Whether messages are so long that the start-up of the kernel is short."""
        few = self.size == 2 or self._is_crowded
        return self._message(nbytes) >= (LONG if few else LONG_OF_MANY)

    def _message(self, nbytes: Any) -> Any:
        """The bytes of a message."""
        return nbytes // self._message_count

    @property
    def _message_count(self) -> int:
        """The number of messages that the buffer of a rank consists of."""
        return self.size if COLLECTIVES[self.collective].blocks else 1
