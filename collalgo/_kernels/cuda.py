"""Reductions on a CUDA device: kernels compiled at first use, and their launch."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from collalgo._kernels.sources import (
    INTERPRETER_SOURCES,
    MOST,
    OPTIONS,
    ROOM,
    THREADS,
    chosen,
    interpreter,
    kernels,
    source,
)

#: Blocks of a reduction for each multiprocessor.
BLOCKS = 4

#: Blocks that run one plan at most, each for so many bytes.
TEAM, SHARE = 8, 1 << 15


class Reducer:
    """The reduction of arrays of a dtype by an op, on the current device of CuPy.

    Parameters
    ----------
    dtype
        A name of :data:`~collalgo.reduction.DTYPES`.
    op
        A name of :data:`~collalgo.reduction.OPS`; ``avg`` needs a divisor.

    Raises
    ------
    ImportError
        Without CuPy.
    RuntimeError
        If the driver is older than the toolkit of CuPy.
    TypeError
        If the dtype does not have the op.
    """

    def __init__(self, dtype: str, op: str):
        self._cupy = checked_cupy()
        self._dtype = dtype
        self._op = "sum" if op == "avg" else op
        able = kernels(dtype, self._op)
        self._module = self._cupy.RawModule(code=source(able), options=OPTIONS)

    def __call__(
        self, result: int, inputs: Sequence[int], count: int, divisor: int = 0
    ) -> None:
        """Reduce on the current stream; the host does not wait.

        Parameters
        ----------
        result
            The address of the result, which may be that of an input.
        inputs
            The addresses of the arrays, in the order in which they are combined.
        count
            Their elements.
        divisor
            What the result is divided by, unless it is 0.

        Raises
        ------
        ValueError
            If there is no input or more than :data:`MOST`, or if an array does not
            begin at a whole element.
        """
        if not 1 <= len(inputs) <= MOST:
            raise ValueError(
                f"reduce: {len(inputs)} arrays; 1 to {MOST} can be reduced"
            )
        kernel = chosen(self._dtype, self._op, [result, *inputs])
        if count == 0:
            return
        arrays = np.zeros((), _INPUTS)  # which CuPy passes by value
        arrays["array"][: len(inputs)] = inputs
        function = self._module.get_function(kernel.name)
        numbers = np.int32(len(inputs)), np.int64(count), np.int64(divisor)
        blocks = self._blocks(count, kernel.width)
        function((blocks,), (THREADS,), (np.uint64(result), arrays, *numbers))

    def _blocks(self, count: int, width: int) -> int:
        """As many as there is work for, but no more than the device has room for."""
        device = self._cupy.cuda.Device()
        room = BLOCKS * device.attributes["MultiProcessorCount"]
        return int(min(-(-count // (width * THREADS)), room))


class Interpretation:
    """The kernel that runs whole plans, on the current device of CuPy.

    Parameters
    ----------
    dtype
        A name of :data:`~collalgo.reduction.DTYPES`.
    op
        A name of :data:`~collalgo.reduction.OPS`, but no mean.

    Raises
    ------
    ImportError, RuntimeError, TypeError
        As of :class:`Reducer`.
    """

    def __init__(self, dtype: str, op: str):
        kernel = interpreter(dtype, op)
        code = source([kernel], INTERPRETER_SOURCES)
        # Blocks that wait for each other must all be on the device: the driver sees to
        # that, or refuses to launch them.
        module = checked_cupy().RawModule(
            code=code, options=OPTIONS, enable_cooperative_groups=True
        )
        self._function = module.get_function(kernel.name)

    def __call__(
        self, rows: int, length: int, places: int, buffers: Sequence[int],
        arrived: int, nbytes: int,
    ) -> None:  # fmt: skip
        """Run a plan on the current stream; the host does not wait.

        Parameters
        ----------
        rows, length, places, arrived
            Of the plan: the addresses of what the kernel reads and counts by.
        buffers
            The addresses of the buffers of all ranks.
        nbytes
            Of the whole buffer of the call, to choose the number of blocks by.
        """
        addresses = np.zeros((), _BUFFERS)
        addresses["begin"][: len(buffers)] = buffers
        blocks = min(-(-nbytes // SHARE), TEAM) or 1
        arguments = np.uint64(rows), np.int32(length), np.uint64(places)
        self._function(
            (blocks,), (THREADS,), (*arguments, addresses, np.uint64(arrived))
        )


_INPUTS = np.dtype([("array", np.uint64, MOST)])
_BUFFERS = np.dtype([("begin", np.uint64, ROOM)])


@cache
def reducer(_device: int, dtype: str, op: str) -> Reducer:
    """The reduction on a device, compiled once."""
    return Reducer(dtype, op)


@cache
def interpretation(_device: int, dtype: str, op: str) -> Interpretation:
    """The kernel that runs plans on a device, compiled once."""
    return Interpretation(dtype, op)


@cache
def checked_cupy() -> Any:
    """CuPy, if it can be used here.

    Raises
    ------
    ImportError
        If it is not installed; the message says how to.
    RuntimeError
        If there is no device, or its driver is older than the toolkit of CuPy.
    """
    try:
        import cupy
    except ImportError as error:
        raise ImportError(
            f"arrays on a CUDA device need CuPy ({error}); install it with: "
            "pip install collalgo[cuda]"
        ) from None
    runtime = cupy.cuda.runtime
    driver, toolkit = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    if driver == 0:
        raise RuntimeError("there is no driver of NVIDIA on this machine")
    if driver // 1000 < toolkit // 1000:
        raise RuntimeError(
            f"the driver knows CUDA {_version(driver)}, and CuPy was made for "
            f"{_version(toolkit)}; update the driver, or install the package of CuPy "
            f"for CUDA {driver // 1000}: pip install cupy-cuda{driver // 1000}x"
        )
    return cupy


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
