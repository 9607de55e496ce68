from typing import Literal

Outlook = Literal["quiet", "called", "left"]

class Queue:
    def outlook(self, rank: int) -> Outlook: ...
