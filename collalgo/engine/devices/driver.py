"""Functions of the CUDA driver that CuPy does not wrap."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

#: A wait ends once the flag is not below the number, modulo 2**32.
GREATER_OR_EQUAL = 0

#: The device attribute: kernels of several processes run concurrently.
MPS_ENABLED = 133

#: The pointer attribute: the unique number of an allocation.
BUFFER_ID = 7

#: The capture mode that permits operations outside the captured graph.
RELAXED = 2


class Driver:
    """``libcuda``, with streams and memory as numbers."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")

    def in_turns(self, device: int) -> bool:
        """Whether processes use a device in turns, without MPS."""
        shared = ctypes.c_int()
        status = self._library.cuDeviceGetAttribute(
            ctypes.byref(shared), MPS_ENABLED, device
        )
        return not (status == 0 and shared.value)

    def allocation(self, pointer: int) -> int | None:
        """The number of an allocation in this process; None if it is not of CUDA."""
        number = ctypes.c_uint64()
        status = self._library.cuPointerGetAttribute(
            ctypes.byref(number), BUFFER_ID, ctypes.c_uint64(pointer)
        )
        return None if status else number.value

    def beginning(self, pointer: int) -> int | None:
        """The begin of the allocation of an address; None if it is not of CUDA."""
        base, nbytes = ctypes.c_uint64(), ctypes.c_size_t()
        status = self._library.cuMemGetAddressRange_v2(
            ctypes.byref(base), ctypes.byref(nbytes), ctypes.c_uint64(pointer)
        )
        return None if status else base.value

    def write(self, stream: int, flag: int, number: int) -> None:
        """Set a flag once all earlier work is done and visible."""
        self._checked("cuStreamWriteValue32_v2", stream, flag, number, 0)

    def wait(self, stream: int, flag: int, number: int) -> None:
        """Make later work wait until a flag has at least a number."""
        self._checked("cuStreamWaitValue32_v2", stream, flag, number, GREATER_OR_EQUAL)

    @contextmanager
    def uncaptured(self) -> Iterator[None]:
        """Permit allocation and mapping while a stream of the thread is captured."""
        mode = ctypes.c_int(RELAXED)
        self._library.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
        try:
            yield
        finally:
            self._library.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))

    def _checked(
        self, name: str, stream: int, flag: int, number: int, how: int
    ) -> None:
        status = getattr(self._library, name)(
            ctypes.c_void_p(stream),
            ctypes.c_uint64(flag),
            ctypes.c_uint32(number),
            ctypes.c_uint(how),
        )
        if status:
            raise RuntimeError(
                f"the driver cannot put {name} on a stream (status {status}); calls on "
                "devices need stream memory operations, CUDA 12 or newer"
            )
