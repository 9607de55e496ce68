from collections.abc import Callable
from typing import Any

from collalgo._kernels.comm.point_to_point.message import Message
from collalgo._kernels.comm.point_to_point.peer import Peer
from collalgo._kernels.engine.transport.host_endpoint import HostEndpoint

class Mailbox:
    rank: int
    size: int
    def __init__(
        self,
        rank: int,
        size: int,
        shared: HostEndpoint,
        home: Callable[[], Any],
        connection: Callable[[Peer], Any],
    ) -> None: ...
    def send(self, buf: Any, to: Any, tag: Any, seconds: float) -> Any: ...
    def isend(self, buf: Any, to: Any, tag: Any, seconds: float) -> Message: ...
    def recv(self, buf: Any, source: Any, tag: Any, seconds: float) -> Any: ...
    def sendrecv(
        self,
        buf: Any,
        to: Any,
        tag: Any,
        out: Any,
        source: Any,
        recv_tag: Any,
        seconds: float,
    ) -> Any: ...
    def irecv(self, buf: Any, source: Any, tag: Any, seconds: float) -> Message: ...
    def probe(self, source: Any, tag: Any, seconds: float) -> tuple[int, str, int]: ...
    def iprobe(
        self, source: Any, tag: Any, seconds: float
    ) -> tuple[int, str, int] | None: ...
    def close(self) -> None: ...
    def unexpected_bytes(self, rank: int) -> int: ...
