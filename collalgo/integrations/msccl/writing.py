"""Translate the steps of all ranks to the program of a file."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import lcm
from typing import NamedTuple

from collalgo.errors import AlgorithmNotApplicable
from collalgo.integrations.msccl.cells import NAMES, Cell, Cells
from collalgo.integrations.msccl.gpu import Gpu
from collalgo.integrations.msccl.program import Connection, Program
from collalgo.schedule import Kind, Step, Transfer
from collalgo.schedule.collective import COLLECTIVES
from collalgo.schedule.replay import Replay

#: The most chunks of one instruction, which is the limit of MSCCL.
MOST = 72


class Parcel(NamedTuple):
    """The part of a message that is received by one kind of receive.

    Attributes
    ----------
    connection : tuple of int
        Sender, receiver, and the lane as the channel.
    out, into : int
        The step of the sender, and that of the receiver.
    source, target : int
        The spare buffer at either end, or 0 for the buffer.
    homes : tuple of int
        The parts of the buffer.
    adds : bool
        Whether the receive reduces.
    """

    connection: Connection
    out: int
    into: int
    source: int
    target: int
    homes: tuple[int, ...]
    adds: bool

    @property
    def local(self) -> bool:
        """Whether sender and receiver are the same GPU."""
        return self.connection[0] == self.connection[1]


class ProgramWriter:
    """Writes the steps of all ranks as a program.

    Parameters
    ----------
    name
        The name of the program.
    collective
        Its collective.
    schedules
        The steps of all ranks.
    """

    def __init__(self, name: str, collective: str, schedules: Sequence[Sequence[Step]]):
        if collective not in NAMES:
            raise AlgorithmNotApplicable(
                f"{collective}: MSCCL XML can be written only for "
                + ", ".join(dict.fromkeys(NAMES.values())),
                collective=collective,
            )
        size = len(schedules)
        blocks = size ** COLLECTIVES[collective].blocks
        each = lcm(Replay(schedules).grid, blocks) // blocks
        self.name, self.schedules = name, schedules
        self.cells = Cells(collective, size, each, collective != "alltoall")
        self.gpus = [Gpu(rank, self.cells) for rank in range(size)]
        self._leaving: dict[tuple[int, int], list[Parcel]] = defaultdict(list)
        self._coming: dict[tuple[int, int], list[Parcel]] = defaultdict(list)
        self._sums: dict[Parcel, list[Parcel]] = {}
        for parcel in self._parcels():
            self._leaving[parcel.connection[0], parcel.out].append(parcel)
            self._coming[parcel.connection[1], parcel.into].append(parcel)
        for coming in self._coming.values():
            self._find_sums(coming)

    def _parcels(self) -> Iterator[Parcel]:
        """All parcels; those of a connection are received in the order of sending."""
        sent = self._ends(sends=True)
        for connection, ends in self._ends(sends=False).items():
            for (out, left), (into, took) in zip(sent[connection], ends, strict=True):
                for kind in (Kind.RECV, Kind.RECV_REDUCE):
                    taken = [t for t in took if t.kind is kind and t.chunks]
                    if taken:  # an empty message has no parcel
                        source, target = (t[0].chunks[0].spare for t in (left, taken))
                        homes, adds = self._homes(taken), kind is Kind.RECV_REDUCE
                        yield Parcel(connection, out, into, source, target, homes, adds)

    def _ends(
        self, *, sends: bool
    ) -> dict[Connection, list[tuple[int, list[Transfer]]]]:
        """One end of the messages of each connection: their steps and transfers."""
        found: dict[Connection, list[tuple[int, list[Transfer]]]] = defaultdict(list)
        for rank, steps in enumerate(self.schedules):
            for number, step in enumerate(steps):
                for connection, transfers in _by_connection(rank, step, sends).items():
                    found[connection].append((number, transfers))
        return found

    def _homes(self, transfers: Iterable[Transfer]) -> tuple[int, ...]:
        """The parts of the buffer that some transfers cover, sorted."""
        count = self.cells.parts
        chunks = [chunk for transfer in transfers for chunk in transfer.chunks]
        bounds = [
            (c.start * count // c.parts, c.stop * count // c.parts) for c in chunks
        ]
        return tuple(sorted(chain.from_iterable(range(*bound) for bound in bounds)))

    def _find_sums(self, coming: list[Parcel]) -> None:
        """Find the parcels of a step that add to the same parts."""
        together: dict[object, list[Parcel]] = defaultdict(list)
        for parcel in coming:
            if parcel.adds:
                together[parcel.homes, parcel.target].append(parcel)
        for parcels in together.values():
            if len(parcels) > 1:
                self._sums |= dict.fromkeys(parcels, parcels)

    def program(self) -> Program:
        """The whole program."""
        for step in range(max(map(len, self.schedules))):
            for rank, gpu in enumerate(self.gpus):
                self._write(gpu, self._leaving[rank, step], self._coming[rank, step])
        if self.cells.collective == "alltoall":
            self._keep_own()
        return Program(self.name, self.cells, [gpu.blocks for gpu in self.gpus])

    def _write(self, gpu: Gpu, leaving: list[Parcel], coming: list[Parcel]) -> None:
        """Write a step of a rank: first its sends, then its receives."""
        for parcel in leaving:
            if not parcel.local:
                _, peer, lane = parcel.connection
                for source, target, count in self._runs(parcel):
                    gpu.add((peer, None, lane), "s", source, target, count)
        for parcel in coming:
            self._take(gpu, parcel)
        for parcels in {id(p): p for p in map(self._sums.get, coming) if p}.values():
            self._sum(gpu, parcels)

    def _take(self, gpu: Gpu, parcel: Parcel) -> None:
        """Write the receive of a parcel, or its move inside the GPU."""
        peer, _, lane = parcel.connection
        is_sum = parcel in self._sums
        if parcel.local:
            if not is_sum:
                kind = "re" if parcel.adds else "cpy"
                self._inside(gpu, kind, parcel.homes, parcel.source, parcel.target)
            return
        for source, target, count in self._runs(parcel):
            if parcel.adds and not is_sum:
                gpu.add((None, peer, lane), "rrc", target, target, count)
            else:
                gpu.add((None, peer, lane), "r", source, target, count)

    def _sum(self, gpu: Gpu, parcels: list[Parcel]) -> None:
        """Add the terms from several peers, in the order of the ranks.

        The terms of lower ranks are added to the first of them; that sum and the terms
        of higher ranks are added to the rank's own.
        """
        homes, target = parcels[0].homes, parcels[0].target
        terms = sorted((p.connection[0], p.local, self._arrival(p)) for p in parcels)
        before = [term for rank, _, term in terms if rank < gpu.rank]
        for term in before[1:]:
            self._inside(gpu, "re", homes, term, before[0])
        for term in (*before[:1], *(term for _, _, term in terms[len(before) :])):
            self._inside(gpu, "re", homes, term, target)

    def _inside(
        self, gpu: Gpu, kind: str, homes: Iterable[int], source: object, target: object
    ) -> None:
        """Write local operations of a GPU, from buffer to buffer."""
        pairs = [(gpu.cell(source, home), gpu.cell(target, home)) for home in homes]
        for run in _joined(pairs):
            gpu.add((None, None, 0), kind, *run)

    def _arrival(self, parcel: Parcel) -> object:
        """The buffer that a parcel is received into; a term of a sum has its own."""
        if parcel.local:
            return parcel.source
        return (
            (parcel.connection, parcel.into) if parcel in self._sums else parcel.target
        )

    def _runs(self, parcel: Parcel) -> Iterator[tuple[Cell, Cell, int]]:
        """The runs of chunks: first at the sender, first at the receiver, count."""
        sender, receiver = (self.gpus[rank] for rank in parcel.connection[:2])
        arrival = self._arrival(parcel)
        yield from _joined(
            [
                (sender.cell(parcel.source, home), receiver.cell(arrival, home))
                for home in parcel.homes
            ]
        )

    def _keep_own(self) -> None:
        """Copy the own block of each rank of an alltoall to its output."""
        each = self.cells.each
        for gpu in self.gpus:
            own = [gpu.rank * each + k for k in range(each)]
            for run in _joined([(Cell("i", k), Cell("o", k)) for k in own]):
                gpu.add((None, None, 0), "cpy", *run)


def _by_connection(
    rank: int, step: Step, sends: bool
) -> dict[Connection, list[Transfer]]:
    """The transfers of a step, by connection."""
    found: dict[Connection, list[Transfer]] = defaultdict(list)
    for transfer in step:
        if (transfer.kind is Kind.SEND) is sends:
            ends = (rank, transfer.peer) if sends else (transfer.peer, rank)
            found[ends[0], ends[1], transfer.lane].append(transfer)
    return found


def _joined(pairs: list[tuple[Cell, Cell]]) -> Iterator[tuple[Cell, Cell, int]]:
    """Join pairs of cells to runs that are consecutive at both ends."""
    start = 0
    for i in range(1, len(pairs) + 1):
        if i < len(pairs) and i - start < MOST:
            follows = all(
                cell == Cell(before.buffer, before.number + 1)
                for before, cell in zip(pairs[i - 1], pairs[i], strict=True)
            )
            if follows:
                continue
        yield *pairs[start], i - start
        start = i
