"""A schedule as a table for the terminal, steps against ranks."""

from collections.abc import Sequence

from rich.table import Table

from collalgo.schedule.chunk import Chunks
from collalgo.schedule.steps import Kind, Step, Transfer

#: The signs of the verbs in a table.
SIGNS = {Kind.SEND: "→", Kind.RECV: "←", Kind.RECV_REDUCE: "⊕"}


def table(schedules: Sequence[Sequence[Step]]) -> Table:
    """The schedule as text: a row for each step, a column for each rank."""
    drawn = Table(show_lines=True, caption="→ send  ← receive  ⊕ reduce")
    drawn.add_column("step", justify="right")
    for rank in range(len(schedules)):
        drawn.add_column(f"rank {rank}", no_wrap=True)
    for number in range(max(map(len, schedules))):
        cells = (
            "\n".join(map(_cell, steps[number])) if number < len(steps) else ""
            for steps in schedules
        )
        drawn.add_row(str(number), *cells)
    return drawn


def _cell(transfer: Transfer) -> str:
    return f"{SIGNS[transfer.kind]}{transfer.peer} {label(transfer.chunks)}".rstrip()


def label(chunks: Chunks) -> str:
    """The first chunks of a message, and the number of further ones."""
    shown = " ".join(map(str, chunks[:2]))
    return f"{shown} +{len(chunks) - 2}" if len(chunks) > 2 else shown
