from typing import Any

from collalgo._kernels.comm.work import Work

class Persistent(Work):
    def __call__(self) -> Any: ...
    def start(self) -> Persistent: ...
