"""Results of the bench that a test makes up, and how they look."""

import io

import numpy as np
from collalgo.bench.cells import Cell
from collalgo.bench.records import (
    AS_ASKED,
    record,
)
from rich.console import Console


def shown(*renderables):
    console = Console(width=250, file=io.StringIO())
    for one in renderables:
        console.print(one)
    return console.file.getvalue()


def made(seconds, *, contestant="collalgo", cycles=5, nbytes=1000, wrong=0):
    rng = np.random.default_rng(1)
    times = [seconds * (1 + 0.01 * rng.random(20)) for _ in range(cycles)]
    return record(
        Cell("allreduce", nbytes, op="sum"),
        2,
        times,
        contestant=contestant,
        algorithm="ring",
        wrong=wrong,
        reason="as asked",
    )


def cell_of(
    algorithm,
    runs,
    reason=AS_ASKED,
    size=8,
    collective="barrier",
    contestant="collalgo",
):
    seconds = [np.array([time]) for time in runs]
    return record(
        Cell(collective, size),
        4,
        seconds,
        algorithm=algorithm,
        reason=reason,
        contestant=contestant,
    )
