from collalgo._kernels.engine.transport.device_messages import DeviceMessages

LANES: int

class Transport:
    rank: int
    size: int
    handler: int
    @property
    def device_messages(self) -> DeviceMessages | None: ...
