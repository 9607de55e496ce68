from collections.abc import Callable
from types import TracebackType

from collalgo._kernels.comm.call_runner import CommunicatorBase
from collalgo._kernels.engine.reduction.reduce import Reduction
from collalgo.engine.user_op import Op

class ReducerReduction(Reduction):
    def __init__(self, address: int, itemsize: int) -> None: ...

class Network:
    failure: BaseException | None
    functions: tuple[int, int]
    def __init__(
        self,
        comm: CommunicatorBase,
        op_of: Callable[[int, int], Op],
        reproducible: bool,
        throwing: int,
    ) -> None: ...
    def __enter__(self) -> Network: ...
    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _place: TracebackType | None,
    ) -> None: ...
