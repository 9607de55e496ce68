# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The clock of records: ticks of the processor, as times of the monotonic clock."""

from libc.stdint cimport int64_t

cdef enum:
    LOOKS = 5  # readings of both clocks


cdef moment now() noexcept nogil:
    """The same moment on both clocks: the fastest of several readings.

    A thread may lose its core between the two clocks, for milliseconds.
    """
    cdef int64_t begun, nanosecond, taken, least = -1
    cdef moment found
    found.tick = found.nanosecond = 0
    for _ in range(LOOKS):
        begun, nanosecond = ticks(), nanoseconds()
        taken = ticks() - begun
        if least < 0 or taken < least:
            least = taken
            found.tick, found.nanosecond = begun, nanosecond
    return found


cdef moment FIRST = now()


cdef class Clock:
    """Converts ticks to nanoseconds of the monotonic clock."""
    def __init__(self):
        self.begun = now()
        self.rate = 1.0
        if self.begun.tick > FIRST.tick:
            self.rate = <double>(self.begun.nanosecond - FIRST.nanosecond)
            self.rate /= self.begun.tick - FIRST.tick

    cpdef int64_t time(self, int64_t tick):
        return self.begun.nanosecond + <int64_t>((tick - self.begun.tick) * self.rate)
