"""Benchmark CUDA devices: reductions against copies, and calls on a shared device.

Needs one device and CuPy::

    python -m collalgo.bench.devices reductions --json reductions.json
    collalgo run -n 2 python -m collalgo.bench.devices calls --json processes_2.json
    python -m collalgo.bench.devices calls --threads 2 --json threads_2.json

Bandwidths count bytes read and written per second.
"""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np
from collalgo.bench.cells import dtype_of
from collalgo.bench.records import FOUND, environment, keep

import collalgo
from collalgo import Communicator
from collalgo._kernels.engine.devices.cuda import checked_cupy, reducer
from collalgo.base.environment import ONE_KERNEL as ONE_KERNEL_VARIABLE
from collalgo.cli.group import SETTINGS
from collalgo.cli.options import force_option, writes
from collalgo.engine.devices.streams import ONE_KERNEL

#: The sizes of the reduced arrays, in MiB.
SIZES = (1, 16, 64, 256)

DTYPES = ("float16", "bfloat16", "float32", "float64", "int32", "int8")
INPUTS = (2, 4, 8)

#: Bytes of allreduces, from launch-bound to memory-bound.
CALLS = (8, 1 << 10, 1 << 13, 1 << 16, 1 << 18, 1 << 20, 1 << 24, 1 << 28)

#: The number of random elements that the reduced arrays repeat.
BLOCK = 1 << 16

#: Reductions timed together, and seconds of calls timed together.
ROW, BUDGET = 10, 0.1

json_option = click.option(
    "--json", "file", **writes(FOUND, by_ranks=True), help="Write the rows to a file."
)


@click.group(context_settings=SETTINGS)
def main() -> None:
    """Measure CUDA devices."""


@main.command()
@json_option
@force_option
def reductions(file: Path | None, force: bool) -> None:
    """Compare reductions with CuPy, torch, CUB, and a copy of the same size."""
    cupy = checked_cupy()
    rows = []
    for mebibytes in SIZES:
        for dtype in DTYPES:
            for inputs in INPUTS:
                row = _reduction(cupy, mebibytes << 20, dtype, inputs)
                rows.append(row)
                rates = ", ".join(
                    f"{name} {row[name]:.0f}" for name in row["contestants"]
                )
                print(
                    f"{mebibytes:4d} MiB {dtype:8s} {inputs} inputs: {rates} GB/s; "
                    f"{row['collalgo'] / row['copy']:.2f} of a copy",
                    flush=True,
                )
    _write(file, force, cupy, rows)


def _reduction(cupy: Any, nbytes: int, dtype: str, inputs: int) -> dict[str, Any]:
    """The bandwidth of each library for a sum of arrays, in GB/s."""
    kind, rng = dtype_of(dtype), np.random.default_rng(5)
    blocks = [rng.integers(0, 8, BLOCK).astype(kind) for _ in range(inputs)]
    arrays = [_repeated(cupy, block, nbytes) for block in blocks]
    result = cupy.empty_like(arrays[0])
    works = _of_each(cupy, arrays, result, dtype)
    found: dict[str, Any] = {
        "nbytes": nbytes,
        "dtype": dtype,
        "inputs": inputs,
        "contestants": list(works),
    }
    total = np.add.reduce(blocks, dtype=kind)
    expected = _repeated(cupy, total, nbytes)
    for name, work in works.items():
        moved = 2 if name == "copy" else inputs + 1
        found[name] = moved * nbytes / _seconds(cupy, work) / 1e9
        assert name == "copy" or (result == expected).all(), name
    return found


def _of_each(
    cupy: Any, arrays: list[Any], result: Any, dtype: str
) -> dict[str, Callable[[], object]]:
    """The sum by each library that supports the dtype, and a copy."""
    ours = reducer(cupy.cuda.Device().id, dtype, "sum")
    pointers = [array.data.ptr for array in arrays]
    works: dict[str, Callable[[], object]] = {
        "copy": lambda: cupy.copyto(result, arrays[0]),
        "collalgo": lambda: ours(result.data.ptr, pointers, result.size),
    }
    works |= _of_torch(arrays, result, dtype)
    if arrays[0].dtype == dtype_of(dtype):
        works |= _of_cupy(cupy, arrays, result) | _of_cub(arrays, result)
    return works


def _repeated(cupy: Any, block: Any, nbytes: int) -> Any:
    """A repeated block; as integers if CuPy lacks its dtype."""
    known = block if block.dtype.kind in "iuf" else block.view(f"u{block.itemsize}")
    return cupy.tile(cupy.asarray(known), nbytes // block.nbytes)


def _of_cupy(
    cupy: Any, arrays: list[Any], result: Any
) -> dict[str, Callable[[], object]]:
    def of_cupy() -> None:
        cupy.add(arrays[0], arrays[1], out=result)
        for array in arrays[2:]:
            cupy.add(result, array, out=result)

    return {"cupy": of_cupy}


def _of_torch(
    arrays: list[Any], result: Any, dtype: str
) -> dict[str, Callable[[], object]]:
    """The same sum by torch, if it is installed with CUDA."""
    try:
        import torch
    except ImportError:
        return {}
    if not torch.cuda.is_available():
        return {}
    kind = getattr(torch, dtype)
    total, *tensors = (torch.as_tensor(a).view(kind) for a in (result, *arrays))

    def of_torch() -> None:
        torch.add(tensors[0], tensors[1], out=total)
        for tensor in tensors[2:]:
            total.add_(tensor)

    return {"torch": of_torch}


def _of_cub(arrays: list[Any], result: Any) -> dict[str, Callable[[], object]]:
    """The same sum by CUB, if ``cuda-cccl`` is installed and supports it."""
    try:
        from cuda import compute
    except ImportError:
        return {}

    def add(first: Any, second: Any) -> None:
        compute.binary_transform(
            d_in1=first, d_in2=second, d_out=result, op=compute.OpKind.PLUS,
            num_items=len(result),
        )  # fmt: skip

    def of_cub() -> None:
        add(arrays[0], arrays[1])
        for array in arrays[2:]:
            add(result, array)

    try:
        of_cub()
    except Exception as error:  # the other libraries are still compared
        print(f"CUB is left out: {type(error).__name__}: {error}")
        return {}
    return {"cub": of_cub}


@main.command()
@json_option
@force_option
@click.option(
    "--threads",
    type=click.IntRange(1),
    help="Number of ranks to run as threads of one process.",
)
def calls(file: Path | None, force: bool, threads: int | None) -> None:
    """Time allreduces of ranks that share a device, by each implementation."""
    if threads is None:
        _calls(file, force, collalgo.init())
    else:
        collalgo.threads(partial(_calls, file, force), threads)


def _calls(file: Path | None, force: bool, world: Communicator) -> None:
    cupy, rows = checked_cupy(), []
    with cupy.cuda.Stream(non_blocking=True):
        for nbytes in CALLS:
            for way, seconds in _ways(cupy, world, nbytes):
                rows.append({"nbytes": nbytes, "way": way, "seconds": seconds})
                if world.rank == 0:
                    print(
                        f"{nbytes:10d} B {way:18s} {1e6 * seconds:10.1f} us", flush=True
                    )
    if world.rank == 0:
        _write(file, force, cupy, rows, world.size)


def _ways(cupy: Any, world: Communicator, nbytes: int) -> Iterator[tuple[str, float]]:
    """The time of a call on the slowest rank, for each implementation."""
    x = cupy.random.default_rng(world.rank).random(nbytes // 4, np.float32)
    y = cupy.empty_like(x)
    yield "copy", _slowest(cupy, world, lambda: cupy.copyto(y, x))
    for way, limit in (("operations", 0), ("one kernel", nbytes)):
        if limit > ONE_KERNEL:
            continue
        os.environ[ONE_KERNEL_VARIABLE.name] = str(limit)
        with world.group(range(world.size)) as comm:

            def call(comm: Any = comm) -> None:
                comm.allreduce(x, out=y)

            call()
            yield way, _slowest(cupy, world, call)
            stream = cupy.cuda.get_current_stream()
            stream.begin_capture()
            call()
            graph = stream.end_capture()
            yield f"{way}, graph", _slowest(cupy, world, graph.launch)
            stream.synchronize()


def _slowest(cupy: Any, comm: Communicator, work: Callable[[], object]) -> float:
    """The seconds of a function, repeated in a row; the least of five rows.

    A row repeats it as often as fits into :data:`BUDGET`, so that the skew of the ranks
    at its start is negligible.
    """
    stream = cupy.cuda.get_current_stream()

    def row(times: int) -> float:
        stream.synchronize()
        comm.barrier()
        start = perf_counter()
        for _ in range(times):
            work()
        stream.synchronize()
        found = np.array([(perf_counter() - start) / times])
        comm.allreduce(found, "max")
        return float(found[0])

    row(1)
    times = max(1, min(int(BUDGET / row(2)), 100))
    return min(row(times) for _ in range(5))


def _seconds(cupy: Any, work: Callable[[], object]) -> float:
    """The median seconds of a function, repeated in a row.

    Launches are queued ahead of the device unless a launch takes longer than its work.
    """
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    found = []
    for row in range(12):
        start.record()
        for _ in range(ROW):
            work()
        end.record()
        end.synchronize()
        if row >= 2:
            found.append(cupy.cuda.get_elapsed_time(start, end) / 1e3 / ROW)
    return float(np.median(found))


def _write(
    file: Path | None,
    force: bool,
    cupy: Any,
    rows: list[dict[str, Any]],
    ranks: int = 1,
) -> None:
    """Write the rows and the environment."""
    if file is None:
        return
    runtime = cupy.cuda.runtime
    about = environment(
        ranks,
        device=runtime.getDeviceProperties(0)["name"].decode(),
        driver=runtime.driverGetVersion(),
        runtime=runtime.runtimeGetVersion(),
        cupy=cupy.__version__,
    )
    keep(file, {"environment": about, "rows": rows}, force=force)


if __name__ == "__main__":
    main()
