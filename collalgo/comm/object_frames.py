"""Objects of Python as frames, and back.

The first frame is the pickle of the object, of protocol 5; the others are the large
buffers in it, such as the elements of arrays, which the pickler does not copy.
"""

import pickle
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: The least bytes of a buffer that moves as a frame of its own.
LARGE = 1 << 16

#: The dtype of the message that announces the frames of an object, and of no other.
LENGTHS = np.dtype([("bytes of a frame of an object", np.int64)])

#: The boundary in bytes that arrays of all dtypes begin at.
ALIGNMENT = 16

Frame = NDArray[np.uint8]
Frames = list[Frame]


def frames_of(obj: Any) -> Frames:
    """The frames of an object: its pickle, then its large buffers, not copied."""
    buffers: list[memoryview] = []

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < LARGE:
            return True
        buffers.append(raw)
        return False

    head = pickle.dumps(obj, protocol=5, buffer_callback=is_small)
    parts: list[bytes | memoryview] = [head, *buffers]
    return [np.frombuffer(part, np.uint8) for part in parts]


def object_of(frames: Sequence[Frame]) -> Any:
    """The object of its frames, whose arrays keep the memory of the frames."""
    buffers = [
        frame if frame.ctypes.data % ALIGNMENT == 0 else frame.copy()
        for frame in frames[1:]
    ]
    return pickle.loads(frames[0].data, buffers=buffers)


def borders(lengths: Sequence[int]) -> list[int]:
    """Where blocks of these lengths begin, and the end of the last.

    >>> borders([3, 2**31, 1])
    [0, 3, 2147483651, 2147483652]
    """
    return [0, *accumulate(lengths)]


def frame_at(frames: Frames, place: int) -> Frame:
    """A frame of a message; empty after the last one."""
    return frames[place] if place < len(frames) else np.empty(0, np.uint8)


def blocks_of(joined: Frame, lengths: Sequence[int]) -> Frames:
    """The parts of an array, without a copy."""
    ends = borders(lengths)
    return [joined[a:b] for a, b in pairwise(ends)]


def objects_of(rounds: Sequence[Frames], numbers: NDArray[np.int64]) -> list[Any]:
    """The objects of all ranks, of their frames by place."""
    return [
        object_of([blocks[rank] for blocks in rounds[: int(number)]])
        for rank, number in enumerate(numbers)
    ]
