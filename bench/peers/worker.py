"""One rank of a contestant: it makes and times calls on command.

It runs in the environment of its contestant, which has only NumPy and that library. It
reads commands as lines of JSON from a socket, and sleeps between them.
"""

import json
import os
import socket
import sys
from collections.abc import Callable, Iterable
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, cast

import numpy as np

Call = Callable[[], object]
Spec = dict[str, Any]

#: The write of the input of a call, which is not timed, and the call.
Timed = tuple[Call, Call]

#: Collectives in which only the root has input.
OF_THE_ROOT = ("broadcast", "scatter")

#: The collectives of MPI that are not out of place.
PLACES = {"broadcast": "in", "barrier": "in"}

#: The names of mpi4py that differ by more than a capital letter.
NAMES_OF_MPI = {
    "broadcast": "Bcast",
    "reduce_scatter": "Reduce_scatter_block",
    "reduce_scatterv": "Reduce_scatter",
}


class Job(NamedTuple):
    """A call, and its input array."""

    call: Call
    source: Any


class Mpi:
    """The calls of mpi4py."""

    def __init__(self) -> None:
        import mpi4py

        mpi4py.rc.thread_level = "single"  # the fastest level
        from mpi4py import MPI

        self.world = MPI.COMM_WORLD
        self.rank, self.size = self.world.rank, self.world.size
        self.version = MPI.Get_library_version().splitlines()[0].strip("\0")
        self.barrier = self.world.Barrier

    def job(self, spec: Spec) -> Job | None:
        """The call on arrays of its own."""
        from mpi4py import MPI

        arrays = arrays_for(spec)
        call = arrays and mpi_call(MPI, self.world, spec, *arrays)
        return Job(call, arrays[0]) if arrays and call else None


def mpi_call(mpi: Any, world: Any, spec: Spec, source: Any, out: Any) -> Call | None:
    """The call of mpi4py for a cell; None if it has none."""
    collective, root = spec["collective"], spec["root"]
    op = getattr(mpi, (spec["op"] or "sum").upper(), None)
    if op is None or spec["place"] != PLACES.get(collective, "out"):
        return None
    at_root = world.rank == root
    call = getattr(world, NAMES_OF_MPI.get(collective, collective.capitalize()))
    arguments: dict[str, tuple[Any, ...]] = {
        "barrier": (),
        "broadcast": (source, root),
        "reduce": (source, out, op, root),
        "gather": (source, out if at_root else None, root),
        "scatter": (source if at_root else None, out, root),
        "allgather": (source, out),
        "alltoall": (source, out),
    }
    return partial(call, *arguments.get(collective, (source, out, op)))


class Gloo:
    """The calls of torch.distributed with gloo."""

    def __init__(self) -> None:
        import torch
        from torch import distributed

        torch.set_num_threads(1)
        self.torch, self.distributed = torch, distributed
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        store = distributed.FileStore(os.environ["STORE"], self.size)
        distributed.init_process_group(
            "gloo", store=store, rank=self.rank, world_size=self.size
        )
        self.version = f"gloo of torch {torch.__version__}"
        self.barrier = distributed.barrier

    def job(self, spec: Spec) -> Job | None:
        """The call on arrays of its own; an allreduce of gloo is in place only."""
        arrays = arrays_for(spec)
        names = {"sum": "SUM", "prod": "PRODUCT", "min": "MIN", "max": "MAX"}
        if arrays is None or (spec["op"] or "sum") not in names:
            return None
        op = getattr(self.distributed.ReduceOp, names[spec["op"] or "sum"])
        source, out = (self.torch.from_numpy(np.ravel(a)) for a in arrays)
        call = self._call(spec, op, source, out)
        return Job(call, arrays[0]) if call else None

    def _call(self, spec: Spec, op: Any, source: Any, out: Any) -> Call | None:
        d, root = self.distributed, spec["root"]
        calls: dict[str, Call] = {
            "barrier": d.barrier,
            "allreduce": lambda: d.all_reduce(source, op),
            "broadcast": lambda: d.broadcast(source, root),
            "reduce": lambda: d.reduce(source, root, op),
            "allgather": lambda: d.all_gather_into_tensor(out, source),
            "alltoall": lambda: d.all_to_all_single(out, source),
            "reduce_scatter": lambda: d.reduce_scatter_tensor(out, source, op),
        }
        return calls.get(spec["collective"])


class Collalgo:
    """The calls of collalgo."""

    def __init__(self) -> None:
        from collalgo.bench.starting import starting_barrier

        import collalgo

        self.comm = collalgo.init()
        self.rank, self.size = self.comm.rank, self.comm.size
        self.version = f"collalgo {collalgo.__version__}"
        self.barrier = starting_barrier(self.comm)

    @property
    def profile(self) -> dict[str, float]:
        """The host profile that the ranks have agreed on, by which they select."""
        from collalgo.comm.current import runner_of

        return dict(cast(Any, runner_of(self.comm)).programs.host_profile._asdict())

    def job(self, spec: Spec) -> Job:
        """The call on arrays of its own, after a check of its result."""
        from collalgo.bench.cells import Bench, Cell

        bench = Bench(Cell(*(spec[name] for name in Cell._fields)), self.comm)
        if spec["check"]:
            spec["wrong"] = bench.wrong(spec["algorithm"])
        return Job(bench.call(spec["algorithm"]), bench.source)


LIBRARIES: dict[str, Any] = {"mpi": Mpi, "gloo": Gloo, "collalgo": Collalgo}


def arrays_for(spec: Spec) -> tuple[Any, Any] | None:
    """The input and the output array of a call; None for dtypes that NumPy lacks."""
    try:
        dtype = np.dtype(spec["dtype"])
    except TypeError:
        return None
    block, count = spec["block"], spec["count"]
    source, out = {
        "allgather": (block, count),
        "gather": (block, count),
        "scatter": (count, block),
        "reduce_scatter": (count, block),
    }.get(spec["collective"], (count, count))
    return np.ones(source, dtype), np.ones(out, dtype)


def writer(spec: Spec, rank: int, source: Any) -> Call:
    """The write of a rank's input before each call, as in a program.

    Without it a receiver that reads the sender's memory would find the data of the last
    call in its own cache.
    """
    sends = spec["collective"] not in OF_THE_ROOT or rank == spec["root"]
    if spec["fresh"] and sends:
        return lambda: source.fill(1)
    return lambda: None


def as_one(call: Call, number: int) -> Call:
    """``number`` calls as one; a single call is returned as is, without a loop."""
    if number == 1:
        return call

    def row() -> None:
        for _ in range(number):
            call()

    return row


def time_calls(
    write: Call, barrier: Call, call: Call, iterations: int, *, warmup: bool = True
) -> list[float]:
    """The seconds of each of ``iterations`` calls, each started at a barrier.

    With ``warmup`` some calls before and one after them are not counted: on shared
    cores ranks start one after the other, and the first to finish send their answers.
    """
    before, after = (1 + iterations // 16, 1) if warmup else (0, 0)
    seconds = [0.0] * (before + iterations + after)
    for i in range(len(seconds)):
        write()
        barrier()
        start = perf_counter()
        call()
        seconds[i] = perf_counter() - start
    return seconds[before : before + iterations]


def time_first_calls(
    barrier: Call, known: Timed, others: Iterable[Timed | None]
) -> list[float]:
    """The seconds of calls, each after a known one, so that its code is in caches.

    A barrier follows: on shared cores a rank would make its next arrays meanwhile.
    """
    seconds: list[float] = []
    for other in filter(None, others):  # those that a library has
        for write, call in (known, other):
            taken = time_calls(write, barrier, call, 1, warmup=False)
        barrier()
        seconds += taken
    return seconds


def serve(library: Any, commands: Any, replies: Any) -> None:
    """Run commands until the stream ends."""
    job: Job | None = None
    for line in commands:
        asked = json.loads(line)
        answer: dict[str, Any] = {}
        if "prepare" in asked:
            spec, job = asked["prepare"], None
            job = library.job(spec)
            answer = {"able": job is not None, "wrong": spec.get("wrong")}
            for _ in range(spec["warmup"] if job else 0):
                job.call()
        elif "first" in asked:
            answer = {"seconds": first_calls(library, asked["first"])}
        elif "times" in asked and job is not None:
            answer = {"seconds": time_job(library, spec, job, asked["times"])}
        else:  # release the arrays, since the others need the memory
            job = None
        replies.write(json.dumps(answer) + "\n")
        replies.flush()


def first_calls(library: Any, specs: list[Spec]) -> list[float]:
    """The seconds of each spec after the first, the known one; all share its op."""

    def timed(spec: Spec) -> Timed | None:
        job = library.job(spec)
        return job and (writer(spec, library.rank, job.source), job.call)

    known = timed(specs[0]) if specs else None
    others = (timed(spec | {"op": specs[0]["op"]}) for spec in specs[1:])
    return time_first_calls(library.barrier, known, others) if known else []


def time_job(library: Any, spec: Spec, job: Job, iterations: int) -> list[float]:
    """The seconds of each of ``iterations`` calls of a job; see :func:`time_calls`."""
    write = writer(spec, library.rank, job.source)
    begin, number = library.barrier, spec["in_a_row"]
    if spec["collective"] == "barrier":
        begin = job.call  # MPI has one barrier for both
    times = time_calls(write, begin, as_one(job.call, number), iterations)
    return [seconds / number for seconds in times]


def main() -> None:
    """Start as a rank of a library, and serve."""
    name, kind, address = sys.argv[1:]
    cores = sorted(os.sched_getaffinity(0))
    library = LIBRARIES[kind]()
    if library.size <= len(cores):  # else a spinning rank would block another
        os.sched_setaffinity(0, {cores[library.rank]})
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        stream = connection.makefile("rw")
        hello = {"name": name, "rank": library.rank, "version": library.version}
        hello["profile"] = getattr(library, "profile", None)
        stream.write(json.dumps(hello) + "\n")
        stream.flush()
        serve(library, stream, stream)


if __name__ == "__main__":
    main()
