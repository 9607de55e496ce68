"""The pairs of a rank of a communicator with each of the others."""

from threading import RLock

from collalgo.bootstrap.context import Rendezvous
from collalgo.comm.point_to_point.any_source import AnySource
from collalgo.comm.point_to_point.pair import Home, Pair


class Pairs:
    """All pairs of a rank of a communicator.

    Parameters
    ----------
    rendezvous
        Connects subsets of the ranks.
    home
        Returns the runner of the communicator, or None after its end.
    rank, size
        Of this rank in the communicator.
    """

    def __init__(self, rendezvous: Rendezvous, home: Home, rank: int, size: int):
        self._rendezvous, self._home = rendezvous, home
        self._rank, self._size = rank, size
        self._pairs: dict[tuple[int, int], Pair] = {}
        self._any_source: dict[int, AnySource] = {}
        self._lock = RLock()

    def at(self, peer: int, tag: int, call: str) -> Pair:
        """The pair with another rank, for a tag."""
        if not 0 <= peer < self._size or peer == self._rank:
            raise ValueError(
                f"{call}: rank {peer} must be another rank of this communicator, which "
                f"has {self._size}; this is rank {self._rank}"
            )
        with self._lock:
            if (peer, tag) not in self._pairs:
                pair = Pair(self._rendezvous, self._home, self._rank, peer, tag)
                self._pairs[peer, tag] = pair
            return self._pairs[peer, tag]

    def from_any(self, tag: int, call: str) -> AnySource:
        """The receiver of messages from any rank, for a tag."""
        if self._size == 1:
            raise ValueError(f"{call}: this communicator has no other rank")
        with self._lock:
            if tag not in self._any_source:
                others = (peer for peer in range(self._size) if peer != self._rank)
                pairs = [self.at(peer, tag, call) for peer in others]
                self._any_source[tag] = AnySource(pairs, self._home, self._rank, tag)
            return self._any_source[tag]

    def close(self) -> None:
        while self._pairs:
            self._pairs.popitem()[1].close()
