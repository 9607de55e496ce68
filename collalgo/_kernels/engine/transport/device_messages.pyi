from collalgo._kernels.engine.transport.network import Network
from collalgo._kernels.engine.transport.transport import Transport

class DeviceMessages:
    in_use: bool
    def __init__(self, transport: Transport, network: Network) -> None: ...
    def exchange(
        self,
        sends: list[tuple[int, int, int]],
        receives: list[tuple[int, int, int]],
    ) -> bool: ...
