from typing import Literal

Outlook = Literal["quiet", "called", "left"]

class WaitableQueue:
    def outlook(self, rank: int) -> Outlook: ...
