"""Benchmark a step of data-parallel training with torch's gloo and with collalgo.

Run by a launcher, in an environment with torch::

    collalgo run -n 4 python -m collalgo.bench.training

The same steps alternate between gloo, collalgo, and a hook without communication. The
cost of communication is the time of a step beyond that with the hook. Short steps are
timed in a row, as in training: if ranks share cores, a single step starts and ends in
the rank's own time slice, so its time leaves out the slices of the others.
"""

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from collalgo.bench.records import FOUND, keep
from collalgo.bench.timing import medians, row_of

from collalgo.cli.group import SETTINGS
from collalgo.cli.options import FiniteRange, force_option, writes

#: The width of a layer; its WIDTH**2 weights are a tenth of the smallest network.
WIDTH = 100

#: The seconds of the steps in a row, up to the limit of their number.
ROW_SECONDS = 0.1

#: Parameters of malloc, by their numbers in ``mallopt`` of glibc.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3

#: The largest threshold, in bytes, of malloc for separate mappings.
LONGEST_KEPT = 32 << 20

#: A timed function.
Step = Callable[[], None]

ALONE, GLOO, OURS = "alone", "gloo", "collalgo"


def keep_memory() -> None:
    """Make malloc keep freed memory.

    Otherwise the gradients of each step may be mapped again, depending on addresses,
    which takes longer than their communication.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(TRIM_THRESHOLD, 2**31 - 1)
        mallopt(MMAP_THRESHOLD, LONGEST_KEPT)


def network(parameters: int) -> Any:
    """A network of about ``parameters`` parameters, in equal layers."""
    from torch import nn

    width = WIDTH if parameters < 1_000_000 else 10 * WIDTH
    count = max(1, round(parameters / (width * width + width)))
    layers: list[Any] = []
    for _ in range(count):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers)


def contestants(parameters: int, groups: dict[str, Any]) -> dict[str, Step]:
    """A step of training for each contestant."""
    import torch
    from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
    from torch.nn.parallel import DistributedDataParallel

    def step_of(model: Any) -> Step:
        width = next(model.parameters()).shape[1]
        batch = torch.randn(8, width)

        def step() -> None:
            model.zero_grad()
            model(batch).square().mean().backward()

        return step

    steps = {}
    for name, group in ((ALONE, groups[OURS]), *groups.items()):
        model = DistributedDataParallel(network(parameters), process_group=group)
        if name == ALONE:
            model.register_comm_hook(None, noop_hook)
        steps[name] = step_of(model)
    return steps


def all_reduces(groups: dict[str, Any], count: int, times: int) -> dict[str, Step]:
    """``times`` allreduces of ``count`` floats, for each group."""
    import torch
    import torch.distributed as dist

    def call_of(group: Any) -> Step:
        tensor = torch.zeros(count)

        def call() -> None:
            for _ in range(times):
                dist.all_reduce(tensor, group=group)

        return call

    return {name: call_of(group) for name, group in groups.items()}


@click.command(context_settings=SETTINGS)
@click.option(
    "--parameters",
    multiple=True,
    type=FiniteRange(0, min_open=True),
    default=(0.1, 1, 10, 50),
    help="Millions of parameters; repeatable.",
)
@click.option(
    "--rounds", type=click.IntRange(1), default=15, help="Steps of each contestant."
)
@click.option(
    "--json", "file", **writes(FOUND, by_ranks=True), help="Write the rows to a file."
)
@force_option
def main(
    parameters: Sequence[float], rounds: int, file: Path | None, force: bool
) -> None:
    """Compare collalgo with gloo under DistributedDataParallel."""
    import torch
    import torch.distributed as dist

    keep_memory()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    groups = {GLOO: dist.group.WORLD, OURS: dist.new_group(backend="collalgo")}
    rows = [_time_steps(groups, millions, rounds) for millions in parameters]
    for count, times in ((2, 100), (1 << 18, 1)):
        rows.append(_time_allreduces(groups, count, times, rounds))
    if dist.get_rank() == 0 and file is not None:
        keep(file, rows, force=force)
    dist.destroy_process_group()


def _time_steps(groups: dict[str, Any], millions: float, rounds: int) -> dict[str, Any]:
    """The row of a network with ``millions`` of parameters; rank 0 prints it."""
    import torch

    torch.manual_seed(0)
    comm = groups[OURS].comm
    steps = contestants(int(millions * 1e6), groups)
    in_a_row = row_of(comm, [steps[ALONE]], ROW_SECONDS)
    seconds = medians(comm, steps, rounds, in_a_row)
    costs = {name: seconds[name] - seconds[ALONE] for name in groups}
    row = {"ranks": comm.size, "parameters": millions * 1e6, "in_a_row": in_a_row}
    if comm.rank == 0:
        print(
            f"{comm.size} ranks, {millions:5g} M parameters: alone "
            f"{1e3 * seconds[ALONE]:8.2f} ms, communication with gloo "
            f"{1e3 * costs[GLOO]:8.2f} ms, with collalgo {1e3 * costs[OURS]:8.2f} "
            f"ms, {costs[OURS] / costs[GLOO]:.2f} of it",
            flush=True,
        )
    return {**row, **seconds}


def _time_allreduces(
    groups: dict[str, Any], count: int, times: int, rounds: int
) -> dict[str, Any]:
    """The row of an allreduce of ``count`` floats; rank 0 prints it."""
    comm = groups[OURS].comm
    found = medians(comm, all_reduces(groups, count, times), 5 * rounds)
    seconds = {name: whole / times for name, whole in found.items()}
    if comm.rank == 0:
        print(
            f"{comm.size} ranks, all_reduce of {4 * count} B: gloo "
            f"{1e6 * seconds[GLOO]:9.1f} us, collalgo "
            f"{1e6 * seconds[OURS]:9.1f} us"
        )
    return {"ranks": comm.size, "floats": count, **seconds}


if __name__ == "__main__":
    main()
