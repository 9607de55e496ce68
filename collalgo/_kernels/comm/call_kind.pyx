# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""From the length of a call to its program, without Python objects.

Calls that differ only in their length share a kind. Its programs are grouped by the size
in bytes, in a few ranges. The programs of a range are filled in again and again.
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int64_t
from libc.stdlib cimport getenv
from libc.string cimport strncpy

from collalgo._kernels.engine.buffer_length cimport buffer_length, measure, mixed
from collalgo._kernels.engine.program cimport Program
from collalgo._kernels.engine.transport.transport cimport NAME_BYTES

from collalgo.base.cache import make_room
from collalgo.base.digest import blake2b
from collalgo.engine.call import named_with_parts

cdef enum:
    PROGRAMS = 32  # of a range, of which most are for calls in the background
    SPARE = 4  # idle programs that a range keeps for other communicators
    RANGES = 64  # of a kind


def are_unset(tuple names):
    """Whether no variable of the environment has one of these names.

    :data:`os.environ` raises and catches an error for each, which takes longer than most
    of a call.
    """
    cdef bytes name
    for name in names:
        if getenv(name) != NULL:
            return False
    return True


@cython.final
cdef class SharedRange:
    """A range of sizes of which all calls of equal groups run the same template.

    Parameters
    ----------
    least, limit : float
        The range is ``least <= nbytes < limit``, in bytes.
    make : callable
        Makes a program for the range.
    """

    def __init__(self, double least, double limit, make):
        self.least, self.limit, self.make = least, limit, make
        self.spare = []

    cdef Program take(self):
        """An idle program, or a new one."""
        return self.spare.pop() if self.spare else self.make()

    cdef int put_back(self, Program program) except -1:
        """Take back a program that is not in use."""
        if len(self.spare) < SPARE:
            self.spare.append(program)
        return 0


@cython.final
cdef class SizeRange:
    """The programs of one communicator for a range of sizes."""

    def __init__(self, SharedRange shared):
        self.shared, self.least, self.limit = shared, shared.least, shared.limit
        self.programs, self.named = [], {}

    cdef int make_idle(self, const buffer_length *length) except -1:
        """Make a program if all are in use for other lengths; this may run other calls."""
        cdef Program program
        for program in self.programs:
            if not program.users or program.has_length(length):
                return 0
        made = self.shared.take()
        if len(self.programs) >= PROGRAMS:
            del self.programs[0]
        self.programs.append(made)
        return 0

    cdef int release(self) except -1:
        """Give back the programs that are not in use."""
        cdef Program program
        for program in self.programs:
            if not program.users:
                self.shared.put_back(program)
        self.programs = []
        return 0

    cdef Program program(self, const buffer_length *length, tuple counts):
        """A program for a length: one that has it, or one that is not in use."""
        cdef Program program, idle = None
        for program in self.programs:
            if program.has_length(length):
                return program
            if not program.users:
                idle = program
        idle.fill_counts(length, counts)
        return idle

    cdef Program program_named(self, str name, int counted, bint is_part):
        """A program under a name, which is not in use, nor filled by another thread.

        The name of a part follows that of the algorithm.
        """
        key = name, counted, is_part, PyThread_get_thread_ident()
        cdef Program found = self.named.get(key)
        if found is None or found.users:
            found = self.named[key] = self.shared.make()
            make_room(self.named)
            digest = blake2b(name.encode(), digest_size=8).digest()
            found.fingerprint = mixed(
                found.fingerprint, int.from_bytes(digest, "little", signed=True)
            )
            if is_part:
                name = named_with_parts(found.algorithm, name)
            found.record.number, found.algorithm = counted, name
            strncpy(found.record.algorithm, <bytes>name.encode(), NAME_BYTES - 1)
        return found


@cython.final
cdef class CallKind:
    """Calls that differ in their length only.

    Parameters
    ----------
    call : collalgo.engine.call.Call
        One of the calls, without the suffix of its name.
    find_range : callable
        Returns the :class:`SharedRange` for a call, its bytes and its counts. An empty
        range is for these counts only.
    itemsize : int
        The bytes of an element.
    shares : int
        The number of equal blocks of the array of a rank; 0 if borders are free.
    blocks, buffers : int
        The number of blocks of the buffer of the schedules, and how many buffers of a
        rank it holds.
    """

    def __init__(
        self, call, find_range, int64_t itemsize, int64_t shares, int64_t blocks,
        int64_t buffers
    ):
        self.call, self.find_range = call, find_range
        self.itemsize, self.shares, self.blocks = itemsize, shares, blocks
        self.buffers, self.ranges = buffers, []
        self.kept = bytearray((blocks + 1) * sizeof(int64_t))  # allocated faster than an array of NumPy
        self.starts = <int64_t *>PyByteArray_AS_STRING(self.kept)

    cdef Program find_program(self, int64_t count, tuple counts):
        """The program of a call of another length than the last one."""
        cdef buffer_length length
        cdef SizeRange found
        self.find_length(&length, count, counts)
        if counts is None or self.latest is None or not self.latest.has_length(&length):
            found = self.range_of(&length, counts)
            found.make_idle(&length)
            # Again, as other calls of this kind may have been made while Python ran.
            self.find_length(&length, count, counts)
            self.latest = found.program(&length, counts)
        return self.latest

    def new_program(self, int64_t count, tuple counts):
        """A program of its own for a call."""
        cdef buffer_length length
        self.find_length(&length, count, counts)
        cdef Program found = self.range_of(&length, counts).shared.make()
        self.find_length(&length, count, counts)  # again, for the same reason
        found.fill_counts(&length, counts)
        return found

    def program_named(
        self, int64_t count, tuple counts, str name, int counted, bint is_part=False
    ):
        """A program that the library runs for another call, under a name for that.

        The ranks compare the name, which a part has beside that of its algorithm;
        :class:`Program` has the values of ``counted``. It holds until the next one is
        requested.
        """
        cdef buffer_length length
        self.find_length(&length, count, counts)
        cdef Program found = self.range_of(&length, counts).program_named(
            name, counted, is_part
        )
        self.find_length(&length, count, counts)  # again, for the same reason
        found.fill_counts(&length, counts)
        return found

    def release(self):
        """Give back the programs that are not in use, at the end of the communicator."""
        cdef SizeRange found
        ranges, self.ranges = self.ranges, []
        self.latest = self.current = None
        for found in ranges:
            found.release()

    cdef int find_length(
        self, buffer_length *length, int64_t count, tuple counts
    ) except -1:
        """Find the length of the buffer of a call."""
        length.itemsize = self.itemsize
        return measure(length, count, counts, self.shares, self.blocks, self.starts)

    cdef SizeRange range_of(self, const buffer_length *length, tuple counts):
        """The range of a length."""
        cdef int64_t nbytes = length.count * self.itemsize // self.buffers
        cdef SizeRange found = self.current
        if found is not None and found.least <= nbytes < found.limit:
            return found
        for found in self.ranges:
            if found.least <= nbytes < found.limit:
                self.current = found
                return found
        self.current = found = SizeRange(self.find_range(self.call, nbytes, counts))
        if found.least < found.limit:
            if len(self.ranges) >= RANGES:
                del self.ranges[0]
            self.ranges.append(found)
        return found
