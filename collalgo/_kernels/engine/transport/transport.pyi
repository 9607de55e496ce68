from collalgo._kernels.engine.transport.device_messages import DeviceMessages

LANES: int
PART_OF_NEXT: int
WHOLE_CALL: int
PART_OF_LAST: int

class Transport:
    rank: int
    size: int
    handler: int
    @property
    def device_messages(self) -> DeviceMessages | None: ...
