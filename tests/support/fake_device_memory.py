"""Memory of a stand-in for a device, at addresses that no processor takes."""

import ctypes
import threading

import numpy as np

ELSEWHERE = 1 << 47
MAPPED = 1 << 48

_owners = {}
_streams = set()
_lock = threading.Lock()


def host(pointer, nbytes):
    """The bytes at an address of the device, for its streams."""
    address = pointer & (ELSEWHERE - 1)
    return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), np.uint8)


def own(pointer, nbytes, owner):
    """Keep memory: as a pool of CuPy does, while streams may use it."""
    _owners[pointer] = (pointer, max(nbytes, 1), owner)


def owned(pointer):
    """The first address, the length and the owner of the memory around an address."""
    for base, nbytes, owner in list(_owners.values()):
        if base <= pointer < base + nbytes:
            return base, nbytes, owner
    raise AssertionError(f"nobody has {pointer:x}")


def add_stream(stream):
    """Count a stream, which may use all memory."""
    with _lock:
        _streams.add(stream)


def remove_stream(stream):
    """Give all memory back when the last stream has ended."""
    with _lock:
        _streams.remove(stream)
        if not _streams:
            _owners.clear()


class DeviceArray:
    """What a user has: an array of the stand-in."""

    def __init__(self, shape, dtype, pointer=None, owner=None):
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        nbytes = int(np.prod(self.shape, dtype=int)) * self.dtype.itemsize
        if pointer is None:
            owner = np.full(max(nbytes, 1) + 64, 0xEE, np.uint8)
            pointer = ELSEWHERE + owner.ctypes.data + -owner.ctypes.data % 64
            own(pointer, nbytes, owner)
        self.pointer, self.owner, self.nbytes = pointer, owner, nbytes
        self.contiguous = self.writeable = True

    @property
    def __cuda_array_interface__(self):
        return {"data": (self.pointer, False), "shape": self.shape, "version": 3}
