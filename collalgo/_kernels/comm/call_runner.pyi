from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from collalgo._kernels.comm.call_kind import CallKind
from collalgo._kernels.comm.progress import Progress
from collalgo._kernels.comm.recorder import Recorder
from collalgo._kernels.comm.work import Work
from collalgo._kernels.engine.program import Program
from collalgo._kernels.engine.transport.transport import Transport
from collalgo.engine.call import Call

class CommunicatorBase:
    rank: int
    size: int
    _runner: CallRunner
    def __init__(self, runner: CallRunner) -> None: ...

class CallRunner(CommunicatorBase):
    seconds: float
    hosts: tuple[int, ...]
    progress: Progress
    recorder: Recorder
    def run(
        self,
        program: Program,
        source: NDArray[Any] | None,
        target: NDArray[Any] | None,
        waiting: float,
        caller: str,
        in_foreground: bool = False,
    ) -> None: ...
    def run_again(self, work: Work) -> None: ...
    def run_now(
        self,
        program: Program,
        source: NDArray[Any] | None,
        target: NDArray[Any] | None,
        waiting: float,
        caller: str,
    ) -> None: ...
    def submit(
        self,
        name: str,
        call: Callable[[], Any],
        persistent: bool = False,
        before: Callable[[], object] | None = None,
        after: Callable[[], object] | None = None,
    ) -> Any: ...
    def __init__(
        self,
        transport: Transport,
        find_kind: Callable[[Call], CallKind],
        handle_status: Callable[..., None],
        interrupted: Callable[[str, BaseException], None],
        seconds: float,
    ) -> None: ...
