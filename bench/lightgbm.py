"""Benchmark LightGBM over its sockets and over collalgo.

Run by a launcher, in an environment with LightGBM::

    collalgo run -n 4 python -m collalgo.bench.lightgbm

The two alternate, each in a thread of its own, as LightGBM has one network for each
thread. First the calls of the network, which LightGBM makes in both cases by the same
functions: least time of one. Then rounds of boosting, each rank with rows of its own:
the cost of communication is the least time beyond that of a rank alone, which finds the
best splits of all features, not of its share.
"""

import ctypes
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click
import numpy as np
from collalgo.bench.records import FOUND, keep
from collalgo.bench.timing import race

import collalgo
from collalgo.cli.group import SETTINGS
from collalgo.cli.options import force_option, writes
from collalgo.integrations.lightgbm import library, network

ALONE, SOCKETS, OURS = "alone", "sockets", "collalgo"

#: The ways in which trees are learned from rows that the ranks share out.
LEARNERS = ("data", "voting")

#: Functions of LightGBM's network, in C++: an allgather of blocks, a reduce-scatter,
#: and the reducer that adds floats of 64 bits.
GATHER = "_ZN8LightGBM7Network9AllgatherEPcPKiS3_S1_i"
SCATTER = "_ZN8LightGBM7Network13ReduceScatterEPciiPKiS3_S1_iRKPFvPKcS1_iiE"
ADD = (
    "_ZZN8LightGBM7Network9GlobalSumIdEESt6vectorIT_SaIS3_EEPS5_ENUlPKcPciiE_4_FUNES8_"
    "S9_ii"
)

#: The calls that are timed: name, bytes of all blocks.
CALLS = (
    *(("allgather", each) for each in (1 << 10, 1 << 14)),
    *(("reduce_scatter", each) for each in (1 << 14, 1 << 18, 1 << 20, 1 << 22)),
)


@contextmanager
def over_sockets(comm: Any) -> Any:
    """The network of LightGBM, in this thread."""
    compiled = library()
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        ports = comm.allgather_objects(each.getsockname()[1])
    machines = ",".join(f"127.0.0.1:{port}" for port in ports).encode()
    if compiled.LGBM_NetworkInit(machines, ports[comm.rank], 2, comm.size):
        raise click.ClickException(compiled.LGBM_GetLastError().decode())
    try:
        yield
    finally:
        compiled.LGBM_NetworkFree()


def network_of(name: str, comm: Any) -> AbstractContextManager[Any]:
    """The network of a contestant."""
    if name == SOCKETS:
        return over_sockets(comm)
    return network(comm) if name == OURS else nullcontext()


class Contestant:
    """A thread with a network.

    Parameters
    ----------
    name
        :data:`ALONE`, :data:`SOCKETS` or :data:`OURS`.
    comm
        The communicator, of which it makes one of its own.
    """

    def __init__(self, name: str, comm: Any):
        self.name, self._comm = name, comm.dup()
        self._thread = ThreadPoolExecutor(1)
        self._network = network_of(name, self._comm)
        self.run(self._network.__enter__)

    def run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Make a call in the thread."""
        return self._thread.submit(call, *args).result()

    def close(self) -> None:
        """Leave the network."""
        self.run(self._network.__exit__, None, None, None)
        self._thread.shutdown()
        self._comm.close()


def call_of(comm: Any, name: str, nbytes: int, repeats: int) -> Callable[[], None]:
    """Some calls of LightGBM's network, in a row."""
    compiled = library()
    starts = np.linspace(0, nbytes // 8, comm.size + 1).astype(np.int32) * 8
    source, target = np.zeros((2, nbytes), np.uint8)
    kept = source, starts, np.diff(starts), target
    *at, out = [ctypes.c_void_p(each.ctypes.data) for each in kept]
    adder = ctypes.cast(getattr(compiled, ADD), ctypes.c_void_p)
    gather, scatter = getattr(compiled, GATHER), getattr(compiled, SCATTER)

    def call(_kept: Any = kept) -> None:
        for _ in range(repeats):
            if name == "allgather":
                gather(*at, out, nbytes)
            else:
                scatter(at[0], nbytes, 8, *at[1:], out, nbytes, ctypes.byref(adder))

    return call


def booster(comm: Any, name: str, learner: str, args: dict[str, int]) -> Any:
    """A model of rows of this rank, in the network of this thread."""
    import lightgbm

    rng = np.random.default_rng(comm.rank)
    x = rng.normal(size=(args["rows"], args["features"])).astype(np.float32)
    y = x @ np.random.default_rng(0).normal(size=args["features"])
    params = {
        "objective": "regression",
        "tree_learner": "serial" if name == ALONE else learner,
        "num_machines": 1 if name == ALONE else comm.size,
        "num_leaves": args["leaves"],
        "num_threads": 1,
        "verbose": -1,
    }
    return lightgbm.Booster(params, lightgbm.Dataset(x, y, params=params))


@click.command(context_settings=SETTINGS)
@click.option(
    "--rows",
    multiple=True,
    type=click.IntRange(1),
    default=(1000, 20000),
    help="Rows of a rank.",
)
@click.option(
    "--features", type=click.IntRange(1), default=100, help="Number of features."
)
@click.option("--leaves", type=click.IntRange(1), default=31, help="Leaves of a tree.")
@click.option(
    "--rounds",
    type=click.IntRange(1),
    default=40,
    help="Rounds of each contestant.",
)
@click.option(
    "--json", "file", **writes(FOUND, by_ranks=True), help="Write the rows to a file."
)
@force_option
def main(
    rows: Sequence[int],
    features: int,
    leaves: int,
    rounds: int,
    file: Path | None,
    force: bool,
) -> None:
    """Compare collalgo with the sockets of LightGBM."""
    comm = collalgo.init()
    each = [Contestant(name, comm) for name in (SOCKETS, OURS, ALONE)]
    found = [_time_calls(comm, each[:2], *call, rounds) for call in CALLS]
    for learner in LEARNERS:
        for count in rows:
            args = {"rows": count, "features": features, "leaves": leaves}
            found.append(_time_rounds(comm, each, learner, args, rounds))
    for contestant in each:
        contestant.close()
    if comm.rank == 0 and file is not None:
        keep(file, found, force=force)


def _time_calls(
    comm: Any, each: Sequence[Contestant], name: str, nbytes: int, rounds: int
) -> dict[str, Any]:
    """The least seconds of a call of each contestant; rank 0 prints them."""
    repeats = max(1, min(50, (1 << 20) // nbytes))
    call = call_of(comm, name, nbytes, repeats)
    steps = [lambda one=one: one.run(call) for one in each]
    taken = race(comm, steps, 5 * rounds).min(axis=1) / repeats
    seconds = dict(zip([one.name for one in each], taken.tolist(), strict=True))
    if comm.rank == 0:
        print(
            f"{comm.size} ranks, {name} of {nbytes} B: sockets "
            f"{1e6 * seconds[SOCKETS]:.1f} us, collalgo {1e6 * seconds[OURS]:.1f} us",
            flush=True,
        )
    return {"ranks": comm.size, "call": name, "bytes": nbytes, **seconds}


def _time_rounds(
    comm: Any,
    each: Sequence[Contestant],
    learner: str,
    args: dict[str, int],
    rounds: int,
) -> dict[str, Any]:
    """The least seconds of a round of each contestant; rank 0 prints them."""
    models = [one.run(booster, comm, one.name, learner, args) for one in each]
    pairs = zip(each, models, strict=True)
    steps = [lambda one=one, model=model: one.run(model.update) for one, model in pairs]
    taken = race(comm, steps, rounds).min(axis=1).tolist()
    seconds = dict(zip([one.name for one in each], taken, strict=True))
    if comm.rank == 0:
        print(
            f"{comm.size} ranks, {learner}, {args['rows']} rows of {args['features']} "
            f"features: alone {1e3 * seconds[ALONE]:.2f} ms, over sockets "
            f"{1e3 * seconds[SOCKETS]:.2f} ms, over collalgo "
            f"{1e3 * seconds[OURS]:.2f} ms",
            flush=True,
        )
    return {"ranks": comm.size, "learner": learner, **args, **seconds}


if __name__ == "__main__":
    main()
