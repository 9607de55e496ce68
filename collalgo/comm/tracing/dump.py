"""Dump the flight recorder: write the last calls of this process to a file."""

import contextlib
import json
import os
import signal
import threading
import time
import weakref
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from collalgo._kernels.comm.call_runner import CallRunner
from collalgo._kernels.comm.recorder import Recorder
from collalgo.base import output_files
from collalgo.comm.call_text import call_name, elements
from collalgo.comm.tracing.notes import CallNote, note_on
from collalgo.engine.reduction import DTYPES, RECORDED_OPS

#: The variable for the folder of dumps; if it is set, every failure writes a dump.
FOLDER = "COLLALGO_DUMP"

#: The folder of dumps without it, in the working directory.
DEFAULT_FOLDER = "collalgo-dump"

#: The format and version of a dump.
VERSION = "collalgo dump 1"

DUMP = output_files.Format("a dump")

_open: "weakref.WeakSet[CallRunner]" = weakref.WeakSet()


def remember(runner: CallRunner) -> None:
    """Include the calls of a communicator in the dumps of this process."""
    _open.add(runner)


def dump(folder: str | Path | None = None) -> Path:
    """Write the last calls of this process on all of its communicators.

    The flight recorder keeps the last 1024 calls of each communicator. A dump is also
    written on SIGUSR1 (unless the program handles it) and, if the environment variable
    ``COLLALGO_DUMP`` names a folder, on every failure of a call.
    ``collalgo trace analyze FOLDER`` compares the dumps of all ranks.

    Parameters
    ----------
    folder
        The folder for the file; by default ``COLLALGO_DUMP``, or ``collalgo-dump``.

    Returns
    -------
    Path
        The file, named by rank and process; an earlier dump in it is replaced.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    target = Path(folder or os.environ.get(FOLDER) or DEFAULT_FOLDER)
    target.mkdir(parents=True, exist_ok=True)
    comms = sorted(_open, key=lambda comm: comm.label)
    worlds = [comm.rank for comm in comms if comm.label.endswith(" world")]
    rank = os.environ.get("RANK") or (str(worlds[0]) if len(worlds) == 1 else "s")
    path = target / f"rank{rank}-{os.getpid()}.json"
    document = {
        "format": VERSION,
        "maker": DUMP.mark,
        "host": os.uname().nodename,
        "process": os.getpid(),
        "time": time.monotonic_ns(),
        "communicators": [_document(comm) for comm in comms],
    }
    output_files.write(path, json.dumps(document, indent=1) + "\n", DUMP)
    return path


def _document(comm: CallRunner) -> dict[str, Any]:
    return {
        "name": comm.label,
        "rank": comm.rank,
        "size": comm.size,
        "records": named_records(comm.recorder),
    }


def named_records(recorder: Recorder) -> list[dict[str, Any]]:
    """The records with names instead of numbers, and the places of notes."""
    return [
        _named(record, note_on(recorder, record["number"]))
        for record in recorder.records()
    ]


def _named(record: dict[str, Any], note: CallNote | None) -> dict[str, Any]:
    op = record["op"]
    noted = {} if note is None else {"place": note.place, "name": note.name}
    return {
        **record,
        "collective": call_name(record),
        "count": elements(record),
        "dtype": DTYPES[record["dtype"]],
        "op": RECORDED_OPS[op] if op >= 0 else None,
        **noted,
    }


def dump_failure() -> None:
    """Write a dump after a failure, if ``COLLALGO_DUMP`` is set."""
    if os.environ.get(FOLDER):
        with contextlib.suppress(OSError):  # the failure itself matters more
            dump()


def listen() -> None:
    """Write a dump on SIGUSR1, unless the program handles it."""
    unused = signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
    if unused and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGUSR1, partial(_on_signal, os.getpid()))


def _on_signal(listening: int, _number: int, _frame: FrameType | None) -> None:
    if os.getpid() == listening:  # not a forked child, whose calls they are not
        with contextlib.suppress(OSError):
            dump()
