from collalgo._kernels.engine.transport.packets import Packets

TAGS: int

class Network(Packets):
    in_use: bool
