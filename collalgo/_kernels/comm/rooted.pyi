from collections.abc import Sequence
from typing import Any

from collalgo._kernels.comm.sharing import Sharing
from collalgo.engine.call import AlgorithmChoice

class Rooted(Sharing):
    def gather(
        self,
        buf: Any,
        root: int = 0,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any: ...
    def gatherv(
        self,
        buf: Any,
        counts: Sequence[int] | None = None,
        root: int = 0,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any: ...
    def scatter(
        self,
        buf: Any,
        root: int = 0,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any: ...
    def scatterv(
        self,
        buf: Any,
        counts: Sequence[int] | None = None,
        root: int = 0,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any: ...
