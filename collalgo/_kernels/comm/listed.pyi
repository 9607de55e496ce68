from typing import Any

from collalgo._kernels.comm.reducing import Reducing
from collalgo.engine.call import AlgorithmChoice

def allgather_into(
    runner: Reducing,
    buf: Any,
    out: list[Any] | tuple[Any, ...],
    algorithm: AlgorithmChoice,
    timeout: float | None,
) -> Any: ...
def alltoall_list(
    runner: Reducing,
    buf: list[Any] | tuple[Any, ...],
    out: Any,
    algorithm: AlgorithmChoice,
    timeout: float | None,
) -> Any: ...
def move(
    runner: Reducing,
    name: str,
    source: Any,
    target: Any,
    timeout: float | None,
    algorithm: AlgorithmChoice,
    elements: tuple[int, ...] | None,
) -> None: ...
