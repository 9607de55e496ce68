from typing import Literal

Outlook = Literal["quiet", "called", "left"]

class WaitableQueue:
    def peer_state(self, rank: int) -> Outlook: ...
