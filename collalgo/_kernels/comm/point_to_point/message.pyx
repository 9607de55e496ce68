# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Messages in flight: sends and receives that have begun."""

cimport numpy as cnp
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

import math

import numpy as np

from collalgo._kernels.comm.clock cimport nanoseconds
from collalgo._kernels.comm.point_to_point.by_tag cimport Tagged
from collalgo._kernels.comm.arrays cimport foreign_array
from collalgo._kernels.comm.work cimport Work
from collalgo._kernels.engine.transport.message_ring cimport message_head

from collalgo.bootstrap.timeouts import seconds_of_wait
from collalgo.comm.awaiting import outcome_of
from collalgo._kernels.comm.done_callbacks import run_callbacks
from collalgo.engine.arrays import check_apart, check_writeable
from collalgo.engine.devices.arrays import Shadow, for_another_thread
from collalgo.engine.dtypes import dtype_code

cnp.import_array()

cdef extern from "numpy/arrayobject.h" nogil:
    bint PyArray_IS_C_CONTIGUOUS(cnp.ndarray array)
    bint PyArray_ISWRITEABLE(cnp.ndarray array)

cdef int64_t NEVER = 1 << 62

#: The numbers of dtypes that were used before.
cdef dict CODES = {}


cdef class Owner:
    """The interface of a message to the messages of its rank."""

    cdef void acquire(self) noexcept:
        """Lock the messages of this rank."""

    cdef void release(self) noexcept:
        """Unlock them."""

    cdef bint poll(self) except -1:
        """Read the records of other ranks; return whether there were any."""
        return False

    cdef bint await_message(self, Message message, int64_t until) except -1:
        """Wait until the other rank has made its call: False after the timeout."""
        return True

    cdef bint cancel_receive(self, Message message) except -1:
        """Cancel a receive that no message has reached: whether it was one."""
        return False

    cdef void queue_callbacks(self, Message message):
        """Queue the callbacks of a message that is done."""

    cdef object in_world(self, error):
        """An error that also names the ranks of the world."""
        return error


cdef class Message(Tagged):
    """A message sent or received in the background, with the methods of :class:`Work`.

    Attributes
    ----------
    name : str
        The call that began it.
    tag : int
        Its tag.
    source : int or None
        The sender; for a receive from any source, None until a rank has sent.
    array : ndarray
        The array as NumPy sees it.
    timeout : float
        Seconds to wait for the other rank.
    number : int
        Its number among the messages from the sender to the receiver; 0 if unknown.
    """

    @property
    def waits(self):
        """Whether the other rank has not made its call yet."""
        return not self.over and self.work is None

    # ---- its array

    cdef int set_array(self, buf) except -1:
        self.buf = buf
        if type(buf) is np.ndarray:
            self.array = <cnp.ndarray>buf
        else:
            self.array = foreign_array(for_another_thread(buf, self.name), self.name)
            self.on_device = isinstance(self.array, Shadow)
        self.dtype = code_of(self.array.dtype, self.name)
        self.nbytes = cnp.PyArray_NBYTES(self.array)
        self.count = cnp.PyArray_SIZE(self.array)
        if PyArray_IS_C_CONTIGUOUS(self.array):
            self.data = <char *>cnp.PyArray_DATA(self.array)
        return 0

    cdef int check_target(self) except -1:
        """Check that its array can be written."""
        if not PyArray_ISWRITEABLE(self.array):
            check_writeable(self.array, "buf", self.name)
        if not PyArray_IS_C_CONTIGUOUS(self.array):
            check_apart(self.array, "buf", self.name)
        return 0

    cdef int pack(self) except -1:
        """Copy the elements that are sent, unless they are in order."""
        if not PyArray_IS_C_CONTIGUOUS(self.array) and not self.on_device:
            self.packed = np.ascontiguousarray(self.array)
            self.data = <char *>cnp.PyArray_DATA(self.packed)
        return 0

    cdef int make_room(self) except -1:
        """Provide memory for elements in order, to be unpacked from it."""
        if not PyArray_IS_C_CONTIGUOUS(self.array):
            self.packed = np.empty((<object>self.array).shape, self.array.dtype)
            self.data = <char *>cnp.PyArray_DATA(self.packed)
        return 0

    cdef int take(self, const char *elements) except -1:
        """Receive the elements of a short message."""
        self.make_room()
        if self.nbytes:
            memcpy(self.data, elements, self.nbytes)
        return self.unpack()

    cdef int unpack(self) except -1:
        if self.packed is not None:
            (<object>self.array)[...] = self.packed
            self.packed = None
        return 0

    cdef void fill_head(self, message_head *head, uint8_t kind) noexcept:
        """Fill in the record of the message."""
        memset(head, 0, sizeof(message_head))
        head.kind, head.dtype, head.on_device = kind, self.dtype, self.on_device
        head.tag, head.number, head.claim = self.tag, self.number, -1
        head.count, head.nbytes = self.count, self.nbytes

    # ---- its end

    cdef void end(self, error):
        """End the message: it was transferred, or has failed."""
        if self.over:
            return
        self.error = None if error is None else self.owner.in_world(error)
        self.pins, self.packed = None, None
        self.over = True
        if self.callbacks is not None:
            self.owner.queue_callbacks(self)

    cdef void follow(self, Work work):
        """End the message with a call in the background."""
        self.pins = None
        self.work = work
        callbacks, self.callbacks = self.callbacks, None
        for callback in callbacks or ():
            self.add_done_callback(callback)

    # ---- the interface of users

    def done(self):
        """Whether the message was transferred, or has failed."""
        if not self.over and self.work is None:
            self.owner.poll()
        return self.over or (self.work is not None and self.work.done())

    def wait(self, timeout=None):
        """Wait until the message is done; see :meth:`Work.wait`. Returns the array."""
        cdef int64_t until
        if not self.over:
            until = NEVER if timeout is None else time_after(seconds_of_wait(timeout))
            if not self.owner.await_message(self, until):
                raise TimeoutError(
                    f"{self.name} is not done after {timeout:g} s; it continues in the "
                    "background: wait for it again"
                )
            if self.work is not None:
                self.work.wait(None if timeout is None else seconds_until(until))
        if self.error is not None:
            raise self.error
        return self.buf

    def cancel(self):
        """Cancel a receive that no message has reached: whether it was one.

        ``wait`` then raises :class:`concurrent.futures.CancelledError`, and a later
        receive gets the message.
        """
        return self.owner.cancel_receive(self)

    def wait_stream(self, stream=None):
        """Make a stream of a device wait for the message; see :class:`Work`."""
        self.owner.await_message(self, NEVER)
        if self.work is None:
            return self.wait()
        self.work.wait_stream(stream)
        return self.buf

    def result(self, timeout=None):
        """The same as :meth:`wait`."""
        return self.wait(timeout)

    def __await__(self):
        """Wait in an event loop of asyncio; see :class:`Work`."""
        return outcome_of(self)

    def exception(self, timeout=None):
        """Wait until the message is done, and return its exception or None."""
        try:
            self.wait(timeout)
        except BaseException as error:
            known = self.work.exception(0) if self.work is not None else self.error
            if error is not known:
                raise
            return error
        return None

    def add_done_callback(self, callback):
        """Call ``callback(message)`` when the message is done, on any thread.

        For its errors see :class:`Work`.
        """
        if self.over:
            run_callbacks([callback], self)
        elif self.work is not None:
            self.work.add_done_callback(lambda _: callback(self))
        else:
            self.callbacks = [*(self.callbacks or ()), callback]
            if self.over and self.callbacks:  # since another thread has ended it
                self.owner.queue_callbacks(self)
                self.owner.poll()


cdef Message new_message(
    str name, buf, int64_t tag, source, double seconds, Owner owner
):
    """A message of this rank; ``seconds`` is its timeout, negative for none."""
    cdef Message message = Message.__new__(Message)
    message.name, message.tag, message.source = name, tag, source
    message.owner, message.claim = owner, -1
    message.timeout = math.inf if seconds < 0 else seconds
    message.deadline = time_after(seconds) if seconds >= 0 else NEVER
    message.set_array(buf)
    return message


cdef int64_t time_after(double seconds) noexcept:
    """A time of the monotonic clock in ns; negative seconds mean no limit."""
    if seconds < 0 or seconds > 1e9:
        return NEVER
    return nanoseconds() + <int64_t>(seconds * 1e9)


cdef double seconds_until(int64_t until) noexcept:
    return max(1e-9 * (until - nanoseconds()), 0)


cdef uint32_t code_of(dtype, str name) except? 0:
    """The number of a dtype."""
    code = CODES.get(dtype)
    if code is None:
        try:
            code = dtype_code(dtype)
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
        if dtype.isbuiltin:  # of which there are few
            CODES[dtype] = code
    return code
