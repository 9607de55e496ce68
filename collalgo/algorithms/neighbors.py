"""Neighbors: each rank exchanges data with its neighbors in a graph of the ranks.

>>> from collalgo import verify
>>> ring = ((1,), (2,), (3,), (0,))
>>> print(verify(OnGraph("alltoall", ring), size=4))
alltoall of 4 ranks: 1 step, 1/4 n bytes, 4 links, same bits on every rank
>>> star = ((1, 2, 3), (0,), (0,), (0,))
>>> verify(OnGraph("allgather", star), size=4).steps
1
>>> verify(OnGraph("allgather", star, paced=True), size=4).steps
3
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

from collalgo.errors import ScheduleError
from collalgo.schedule import Group, Steps, recv, send
from collalgo.schedule.chunk import Chunks
from collalgo.schedule.collective import Collective, on_graph

#: The ranks that each rank sends to, in ascending order.
Graph = tuple[tuple[int, ...], ...]

#: The end of the label of the schedule of an alltoall with equally long blocks.
UNIFORM = ", equal blocks"

#: The rounds of a graph: in each, the target of each rank that sends.
Rounds = tuple[dict[int, int], ...]


@dataclass(frozen=True)
class OnGraph:
    """The schedule of an allgather or alltoall among neighbors.

    Attributes
    ----------
    collective : str
        ``allgather`` or ``alltoall``.
    graph : tuple of tuple of int
        The ranks that each rank sends to.
    paced : bool
        Whether a rank sends to one neighbor, and receives from one, at a time.
    uniform_alltoall : bool
        Whether the call is an alltoall with equally long blocks; the ranks compare it.
    """

    collective: str
    graph: Graph
    paced: bool = False
    uniform_alltoall: bool = False

    @property
    def promise(self) -> Collective:
        """What it performs: the part of its collective along the graph."""
        return on_graph(self.collective, self.graph)

    @property
    def label(self) -> str:
        """The name that ranks compare."""
        way = "paced" if self.paced else "direct"
        of_blocks = UNIFORM if self.uniform_alltoall else ""
        return f"{way} on graph {hash(self.graph) & 0xFFFFFFFF:08x}{of_blocks}"

    def obstacle(self, size: int) -> str | None:
        """The obstacle to a number of ranks: the graph has another one."""
        if size == len(self.graph):
            return None
        return f"a graph of {len(self.graph)} ranks cannot run on {size} ranks"

    def __call__(self, group: Group) -> Steps:
        """Each block goes straight to the neighbor, all at once or in rounds."""
        if obstacle := self.obstacle(group.size):
            raise ScheduleError(obstacle)
        me = group.me
        rounds = rounds_of(self.graph) if self.paced else (None,)
        for each in rounds:
            sent, received = self._ends(me, each)
            yield (
                *(send(to, self._chunk(group, me, to)) for to in sent),
                *(recv(source, self._chunk(group, source, me)) for source in received),
            )

    def _ends(self, me: int, chosen: dict[int, int] | None) -> tuple[list[int], ...]:
        """The receivers and the senders of my messages, in one round or in all."""
        if chosen is not None:
            received = [source for source, to in chosen.items() if to == me]
            return [chosen[me]] if me in chosen else [], received
        size = len(self.graph)
        sent = [to for to in self.graph[me] if to != me]
        senders = [r for r in range(size) if r != me and me in self.graph[r]]
        return (
            sorted(sent, key=lambda to: (to - me) % size),
            sorted(senders, key=lambda source: (me - source) % size),
        )

    def _chunk(self, group: Group, source: int, target: int) -> Chunks:
        """What goes from one rank to another."""
        if self.collective == "alltoall":
            return (group.block(group.position(source), group.position(target)),)
        return group.chunk(group.position(source))


@lru_cache(maxsize=64)
def rounds_of(graph: Graph) -> Rounds:
    """Rounds in which each rank sends one message at most, and receives one."""
    rounds: list[tuple[dict[int, int], set[int]]] = []
    for source, to in _edges(graph):
        for number in count():
            if number == len(rounds):
                rounds.append(({}, set()))
            sending, receiving = rounds[number]
            if source not in sending and to not in receiving:
                sending[source] = to
                receiving.add(to)
                break
    return tuple(sending for sending, _ in rounds)


def _edges(graph: Graph) -> Iterator[tuple[int, int]]:
    """The messages between ranks, ordered by their distance."""
    size = len(graph)
    edges = [(r, to) for r, targets in enumerate(graph) for to in targets if to != r]
    return iter(sorted(edges, key=lambda edge: ((edge[1] - edge[0]) % size, edge)))
