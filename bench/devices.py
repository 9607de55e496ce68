"""What CUDA devices do: reductions beside copies, and calls between processes on one.

With one device, and CuPy::

    python -m collalgo.bench.devices reductions --json reductions.json
    collalgo run -n 2 python -m collalgo.bench.devices calls --json calls_2.json

Bandwidths are bytes read and written in a second.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np
from collalgo.bench.records import environment

import collalgo
from collalgo import Communicator
from collalgo._kernels.cuda import checked_cupy, reducer
from collalgo.devices.streams import VARIABLE

#: Of the arrays that are reduced, in MiB.
SIZES = (1, 16, 64, 256)

DTYPES = ("float16", "float32", "float64", "int32", "int8")
INPUTS = (2, 4, 8)

#: Bytes of allreduces: where launches are what takes time, and where memory is.
CALLS = (8, 1 << 10, 1 << 13, 1 << 16, 1 << 18, 1 << 20, 1 << 24, 1 << 28)

json_option = click.option(
    "--json", "file", type=click.Path(path_type=Path), help="Write the rows."
)


@click.group()
def main() -> None:
    """Measure CUDA devices."""


@main.command()
@json_option
def reductions(file: Path | None) -> None:
    """Race reductions of arrays against CuPy, torch, CUB, and a copy of as much."""
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
    _write(file, cupy, rows)


def _reduction(cupy: Any, nbytes: int, dtype: str, inputs: int) -> dict[str, Any]:
    """GB/s of each contestant for the sum of some arrays."""
    kind = np.dtype(dtype)
    count = nbytes // kind.itemsize
    arrays = [cupy.ones(count, kind) for _ in range(inputs)]
    result = cupy.empty(count, kind)
    ours = reducer(cupy.cuda.Device().id, dtype, "sum")
    pointers = [array.data.ptr for array in arrays]

    def of_cupy() -> None:
        cupy.add(arrays[0], arrays[1], out=result)
        for array in arrays[2:]:
            cupy.add(result, array, out=result)

    works: dict[str, Callable[[], object]] = {
        "copy": lambda: cupy.copyto(result, arrays[0]),
        "collalgo": lambda: ours(result.data.ptr, pointers, count),
        "cupy": of_cupy,
    }
    works |= _of_torch(arrays, result) | _of_cub(arrays, result)
    found: dict[str, Any] = {
        "nbytes": nbytes,
        "dtype": dtype,
        "inputs": inputs,
        "contestants": list(works),
    }
    for name, work in works.items():
        moved = 2 if name == "copy" else inputs + 1
        found[name] = moved * nbytes / _seconds(work) / 1e9
    assert (result == inputs).all()
    return found


def _of_torch(arrays: list[Any], result: Any) -> dict[str, Callable[[], object]]:
    """The same sum by torch, where it is installed with CUDA."""
    try:
        import torch
    except ImportError:
        return {}
    if not torch.cuda.is_available():
        return {}
    tensors, total = [torch.as_tensor(a) for a in arrays], torch.as_tensor(result)

    def of_torch() -> None:
        torch.add(tensors[0], tensors[1], out=total)
        for tensor in tensors[2:]:
            total.add_(tensor)

    return {"torch": of_torch}


def _of_cub(arrays: list[Any], result: Any) -> dict[str, Callable[[], object]]:
    """The same sum by CUB, where ``cuda-cccl`` is installed and can do it."""
    try:
        from cuda import compute
    except ImportError:
        return {}

    def add(first: Any, second: Any) -> None:
        compute.binary_transform(
            first, second, result, compute.OpKind.PLUS, len(result)
        )

    def of_cub() -> None:
        add(arrays[0], arrays[1])
        for array in arrays[2:]:
            add(result, array)

    try:
        of_cub()
    except Exception as error:  # which is no reason to end the race of the others
        print(f"CUB is left out: {type(error).__name__}: {error}")
        return {}
    return {"cub": of_cub}


@main.command()
@json_option
def calls(file: Path | None) -> None:
    """Time allreduces of ranks that share a device: each way that a call can go."""
    cupy = checked_cupy()
    cupy.cuda.Stream(non_blocking=True).use()
    world = collalgo.init()
    rows = []
    for nbytes in CALLS:
        for way, seconds in _ways(cupy, world, nbytes):
            row = {"nbytes": nbytes, "way": way, "seconds": seconds}
            rows.append(row)
            if world.rank == 0:
                print(f"{nbytes:10d} B {way:12s} {1e6 * seconds:10.1f} us", flush=True)
    if world.rank == 0:
        _write(file, cupy, rows, world.size)


def _ways(cupy: Any, world: Communicator, nbytes: int) -> Iterator[tuple[str, float]]:
    """How long a call takes on the slowest rank, each way that it can go."""
    x = cupy.zeros(nbytes // 4, np.float32)
    y = cupy.empty_like(x)
    times = 100 if nbytes < 1 << 20 else 10
    yield "copy", _slowest(cupy, world, lambda: cupy.copyto(y, x), times)
    for way, limit in (("operations", 0), ("one kernel", nbytes)):
        if limit > 1 << 20:
            continue
        os.environ[VARIABLE] = str(limit)
        with world.group(range(world.size)) as comm:
            comm.allreduce(x)

            def call(comm: Any = comm) -> None:
                comm.allreduce(x)

            yield way, _slowest(cupy, world, call, times)
            stream = cupy.cuda.get_current_stream()
            stream.begin_capture()
            comm.allreduce(x)
            graph = stream.end_capture()
            yield f"{way}, graph", _slowest(cupy, world, graph.launch, times)
            stream.synchronize()


def _slowest(
    cupy: Any, comm: Communicator, work: Callable[[], object], times: int
) -> float:
    """Seconds of some work, of so many in a row; the least of five such rows."""
    stream = cupy.cuda.get_current_stream()
    found = np.empty(5)
    for i in range(-1, len(found)):
        stream.synchronize()
        comm.barrier()
        start = perf_counter()
        for _ in range(times):
            work()
        stream.synchronize()
        if i >= 0:
            found[i] = (perf_counter() - start) / times
    comm.allreduce(found, "max")
    return float(found.min())


def _seconds(work: Callable[[], object]) -> float:
    """The median of the seconds that some work takes on the device."""
    from cupyx.profiler import benchmark

    times = benchmark(work, n_repeat=20, n_warmup=3).gpu_times
    return float(np.median(times))


def _write(
    file: Path | None, cupy: Any, rows: list[dict[str, Any]], ranks: int = 1
) -> None:
    """Write what was found, and on what."""
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
    file.write_text(json.dumps({"environment": about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
