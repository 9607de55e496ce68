"""How processes that know their ranks tell each other the first things."""

from typing import Protocol

from collalgo.bootstrap.foreign_stores import KeyValueStore


class ExchangeGroup(Protocol):
    """Processes that can hear each other; all of them must call the same.

    Attributes
    ----------
    rank, size : int
        Which of how many this is.
    """

    rank: int
    size: int

    def allgather(self, text: str) -> list[str]:
        """What each process says, in the order of their ranks."""

    def broadcast(self, text: str) -> str:
        """What rank 0 says."""


class StoreExchange:
    """Processes that share a board."""

    def __init__(self, board: KeyValueStore, rank: int, size: int, timeout: float):
        self.rank = rank
        self.size = size
        self._board = board
        self._timeout = timeout

    def allgather(self, text: str) -> list[str]:
        """What each process says, in the order of their ranks; to be called once."""
        self._board.set(f"said/{self.rank}", text.encode())
        return [self._heard(f"said/{other}") for other in range(self.size)]

    def broadcast(self, text: str) -> str:
        """What rank 0 says; to be called once."""
        if self.rank == 0:
            self._board.set("first", text.encode())
        return self._heard("first")

    def _heard(self, key: str) -> str:
        return self._board.get(key, self._timeout).decode()
