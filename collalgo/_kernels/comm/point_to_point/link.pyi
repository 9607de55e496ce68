from enum import IntEnum

class Kind(IntEnum):
    EAGER = 0
    REQUEST = 1
    CLEAR = 2
    DATA = 3
    REFUSAL = 4
    WITHDRAWAL = 5
    CREDIT = 6
