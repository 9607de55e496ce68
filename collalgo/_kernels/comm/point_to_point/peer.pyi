from collalgo.comm.point_to_point.channel import Channel

class Peer:
    me: int
    rank: int
    on_host: bool
    has_left: bool
    def connected(self, channel: Channel) -> None: ...
    def cannot_connect(self, error: BaseException) -> None: ...
