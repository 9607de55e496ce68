from collalgo._kernels.comparison import Comparison
from collalgo._kernels.network import Network
from collalgo._kernels.shared_memory import SharedMemory
from collalgo._kernels.transport import Transport

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
        self, farewell: str = "its communicator was closed", failed: bool = False
    ) -> None: ...
