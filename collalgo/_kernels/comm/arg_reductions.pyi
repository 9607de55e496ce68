from collections.abc import Callable
from typing import Any

from collalgo._kernels.comm.reducing import Reducing

def reduce_arg(
    call: Callable[..., Any],
    runner: Reducing,
    buf: Any,
    op: Any,
    out: Any,
    is_result_here: bool = True,
) -> Any: ...
