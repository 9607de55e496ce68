from collections.abc import Sequence

from collalgo._kernels.engine.transport.segment import Segment

KEY_BYTES: int

class DirectoryInUse(Exception):
    place: int

class PoolExhausted(Exception): ...

class GroupMemory(Segment):
    def __init__(
        self, host: Segment, key: bytes, places: Sequence[int], place: int
    ) -> None: ...
    def withdraw(self) -> bool: ...

def lock_directory(host: Segment, place: int) -> None: ...
def leave_in_place_of(host: Segment, place: int, ended: int) -> None: ...
