"""Errors in ops of the user: the same call fails on all ranks."""

from collections.abc import Callable
from typing import Any

import numpy as np

from collalgo._kernels.engine.transport.transport import PART_OF_LAST
from collalgo.comm.error_of_rank import error_of_rank
from collalgo.errors import OpFailed

#: The bytes of the text that a rank sends to the others.
TEXT = 512


def agree(
    runner: Any,
    run: Callable[..., object],
    failure: BaseException | None,
    waiting: float,
    caller: str,
) -> None:
    """Raise the error of the op of a call on some rank, on all ranks.

    Parameters
    ----------
    runner
        The runner of the communicator.
    run
        Its method that runs a program, within the call or as a call of its own.
    failure
        The error that the op has raised on this rank.
    waiting
        The seconds to wait for the other ranks; negative for no limit.
    caller
        The name of the call.

    Raises
    ------
    BaseException
        ``failure``, with a note that names the rank.
    OpFailed
        If the op has raised on other ranks only.
    """
    program = runner.programs.exchange_for(caller, TEXT, PART_OF_LAST)
    mine, texts = np.zeros(TEXT, np.uint8), np.empty((runner.size, TEXT), np.uint8)
    if failure is not None:
        text = f"{type(failure).__name__}: {failure}".encode()[:TEXT]
        mine[: len(text)] = bytearray(text)
    run(program, mine, texts, waiting, caller)
    if failure is not None:
        if hasattr(failure, "add_note"):  # from Python 3.11 on
            failure.add_note(f"{caller}: raised by the op on rank {runner.rank}")
        raise failure
    for rank, row in enumerate(texts):
        if row[0]:
            text = row.tobytes().rstrip(b"\0").decode(errors="replace")
            what = f"the op raised on rank {rank}: {text}"
            raise error_of_rank(OpFailed, runner, caller, rank, what)
