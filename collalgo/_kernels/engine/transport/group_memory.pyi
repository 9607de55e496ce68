from collalgo._kernels.engine.transport.segment import Segment

KEY_BYTES: int

class DirectoryInUse(Exception):
    place: int

class PoolExhausted(Exception): ...

class GroupMemory(Segment):
    def __init__(self, host: Segment, key: bytes, size: int, place: int) -> None: ...
    def withdraw(self) -> bool: ...
