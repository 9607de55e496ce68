from typing import Any

CALLS: int

class Recorder:
    capacity: int
    count: int
    def __init__(self, capacity: int = ...) -> None: ...
    def records(self) -> list[dict[str, Any]]: ...
