"""What CuPy does not show of the driver of CUDA."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

#: A wait ends when the flag, counted around, is not below the number.
GREATER_OR_EQUAL = 0

#: The attribute of a device whose processes run side by side.
MPS_ENABLED = 133

#: The attribute of memory that tells an allocation from all others.
BUFFER_ID = 7

#: While streams are captured, a thread may do all that is safe outside of their graphs.
RELAXED = 2


class Driver:
    """``libcuda``, whose streams and memory are known by their numbers."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")

    def in_turns(self, device: int) -> bool:
        """Whether processes have a device in turns: no multi-process service runs."""
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
        """Where the memory begins that was allocated together; None if not by CUDA."""
        base, nbytes = ctypes.c_uint64(), ctypes.c_size_t()
        status = self._library.cuMemGetAddressRange_v2(
            ctypes.byref(base), ctypes.byref(nbytes), ctypes.c_uint64(pointer)
        )
        return None if status else base.value

    def write(self, stream: int, flag: int, number: int) -> None:
        """Set a flag when all that comes before is done, and can be seen."""
        self._checked("cuStreamWriteValue32_v2", stream, flag, number, 0)

    def wait(self, stream: int, flag: int, number: int) -> None:
        """Let what follows wait until a flag has at least a number."""
        self._checked("cuStreamWaitValue32_v2", stream, flag, number, GREATER_OR_EQUAL)

    @contextmanager
    def uncaptured(self) -> Iterator[None]:
        """Let memory be had and mapped though a stream of the thread is captured."""
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
                f"the driver cannot put {name} on a stream (status {status}); devices "
                "need operations on memory in streams, which CUDA 12 has"
            )
