from collections.abc import Callable
from typing import TypeVar

from collalgo._kernels.comm.call_runner import CommunicatorBase

Method = TypeVar("Method", bound=Callable[..., object])

class DirectCalls:
    is_coalescing: bool
    def __init__(self, comm: CommunicatorBase) -> None: ...

def direct(general: Method) -> Method: ...
