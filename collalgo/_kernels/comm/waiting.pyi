from typing import Literal

PeerState = Literal["quiet", "called", "left"]

class WaitableQueue:
    def peer_state(self, rank: int) -> PeerState: ...
