from collections.abc import Sequence
from typing import Any

from collalgo._kernels.comm.rooted import Rooted
from collalgo.engine.call import AlgorithmChoice

class Calls(Rooted):
    def allreduce(
        self,
        buf: Any,
        op: Any = "sum",
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        reproducible: bool = False,
        timeout: float | None = None,
    ) -> Any: ...
    def reduce(
        self,
        buf: Any,
        op: Any = "sum",
        root: int = 0,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        reproducible: bool = False,
        timeout: float | None = None,
    ) -> Any: ...
    def reduce_scatter(
        self,
        buf: Any,
        op: Any = "sum",
        counts: Sequence[int] | None = None,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        reproducible: bool = False,
        timeout: float | None = None,
    ) -> Any: ...
    def scan(
        self,
        buf: Any,
        op: Any = "sum",
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any: ...
    def exscan(
        self,
        buf: Any,
        op: Any = "sum",
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any: ...
