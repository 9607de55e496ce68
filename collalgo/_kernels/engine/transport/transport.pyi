LANES: int

class Transport:
    rank: int
    size: int
    handler: int
