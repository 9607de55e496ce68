from typing import Any

from collalgo._kernels.comm.reducing import Reducing
from collalgo.comm.types import OpLike
from collalgo.engine.call import AlgorithmChoice, Reproducible

def allreduce_tree(
    runner: Reducing,
    buf: Any,
    op: OpLike,
    out: Any,
    algorithm: AlgorithmChoice,
    reproducible: Reproducible,
    timeout: float | None,
) -> Any: ...
def reduce_tree(
    runner: Reducing,
    buf: Any,
    op: OpLike,
    root: int,
    out: Any,
    algorithm: AlgorithmChoice,
    reproducible: Reproducible,
    timeout: float | None,
) -> Any: ...
def broadcast_tree(
    runner: Reducing,
    buf: Any,
    root: int,
    algorithm: AlgorithmChoice,
    timeout: float | None,
) -> Any: ...
def allgather_tree(
    runner: Reducing,
    buf: Any,
    out: Any,
    algorithm: AlgorithmChoice,
    timeout: float | None,
) -> Any: ...
