from collalgo._kernels.engine.transport.comparison import Comparison
from collalgo._kernels.engine.transport.network import Network
from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo._kernels.engine.transport.transport import Transport

class Composite(Transport):
    shared: SharedMemory
    comparison: Comparison
    def __init__(self, shared: SharedMemory, network: Network, size: int) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def forked(self) -> bool: ...
    def leave_behind(self, rank: int, completed: int) -> None: ...
    def close(
        self, exit_reason: str = "its communicator was closed", failed: bool = False
    ) -> None: ...
