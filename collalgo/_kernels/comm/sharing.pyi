from collections.abc import Sequence
from typing import Any

from collalgo._kernels.comm.caller import Caller
from collalgo.engine.call import AlgorithmChoice

class Sharing(Caller):
    def broadcast(
        self,
        buf: Any,
        root: int = 0,
        *,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any: ...
    def allgather(
        self,
        buf: Any,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any: ...
    def allgatherv(
        self,
        buf: Any,
        counts: Sequence[int] | None = None,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any: ...
    def alltoall(
        self,
        buf: Any,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any: ...
    def alltoallv(
        self,
        buf: Any,
        counts: Any,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any: ...
    def barrier(
        self,
        *,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> None: ...
