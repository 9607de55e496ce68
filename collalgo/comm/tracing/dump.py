"""Dump the flight recorder: write the last calls of this process to a file."""

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import Any

from collalgo._kernels.comm.recorder import Recorder
from collalgo.base import output_files
from collalgo.base.environment import DUMP as DUMP_FOLDER
from collalgo.base.source_lines import stacks
from collalgo.bootstrap import descent
from collalgo.comm.call_text import call_name, elements
from collalgo.comm.tracing.names import name_of
from collalgo.comm.tracing.registry import Remembered, own_communicators
from collalgo.engine.dtypes import dtype_text
from collalgo.engine.reduction import op_text
from collalgo.errors import CollalgoError

#: The folder of dumps without it, in the working directory.
DEFAULT_FOLDER = "collalgo-dump"

#: The files of dumps in a folder.
DUMP_FILES = "rank*.json"

#: The format and version of a dump.
VERSION = "collalgo dump 1"

DUMP = output_files.Format("a dump", has_force=False)


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
        If the folder cannot be made, or the file cannot be written.
    CollalgoError
        In a forked process that has no communicator of its own.
    """
    comms = own_communicators("dump")
    target = Path(folder or DUMP_FOLDER.given() or DEFAULT_FOLDER)
    output_files.make_folder(target)
    path = target / f"rank{_rank(comms)}-{os.getpid()}.json"
    document = {
        "format": VERSION,
        "maker": DUMP.mark,
        "host": os.uname().nodename,
        "process": os.getpid(),
        "time": time.monotonic_ns(),
        "threads": stacks(),
        "communicators": [_document(comm) for comm in comms],
    }
    output_files.write(path, json.dumps(document, indent=1) + "\n", DUMP)
    return path


def _rank(comms: Sequence[Remembered]) -> str:
    """The rank in the name of a file: the launcher's, unless that is of the parent."""
    worlds = [comm.rank for comm in comms if comm.label.endswith(" world")]
    of_launcher = "" if descent.is_child() else os.environ.get("RANK")
    return of_launcher or (str(worlds[0]) if len(worlds) == 1 else "s")


def _document(comm: Remembered) -> dict[str, Any]:
    return {
        "name": comm.label,
        "rank": comm.rank,
        "size": comm.size,
        "records": named_records(comm.recorder),
    }


def named_records(recorder: Recorder) -> list[dict[str, Any]]:
    """The records with names instead of numbers, and those of calls that have one."""
    return [
        _named(record, name_of(recorder, record["sequence"]))
        for record in recorder.records()
    ]


def _named(record: dict[str, Any], name: str) -> dict[str, Any]:
    op = record["op"]
    return {
        **record,
        "collective": call_name(record),
        "count": elements(record),
        "dtype": dtype_text(record["dtype"]),
        "op": op_text(op) if op >= 0 else None,
        **({"name": name} if name else {}),
    }


def dump_failure() -> None:
    """Write a dump after a failure, if ``COLLALGO_DUMP`` is set."""
    if DUMP_FOLDER.given():
        try:
            dump()
        except OSError as error:  # the failure itself matters more
            _report(f"no dump of the failure is written: {error}")
        except CollalgoError:
            pass


@cache
def _report(warning: str) -> None:
    """Show a warning, once."""
    import logging  # which few ranks need

    logging.getLogger("collalgo").warning(warning)


def listen() -> None:
    """Write a dump on SIGUSR1, unless the program handles it."""
    handler = signal.getsignal(signal.SIGUSR1)
    inherited = isinstance(handler, partial) and handler.func is _on_signal
    if (
        inherited or handler == signal.SIG_DFL
    ) and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGUSR1, partial(_on_signal, os.getpid()))


def listens() -> bool:
    """Whether SIGUSR1 writes a dump of this process."""
    handler = signal.getsignal(signal.SIGUSR1)
    if not isinstance(handler, partial) or handler.func is not _on_signal:
        return False
    return handler.args == (os.getpid(),)


def _on_signal(listening: int, _number: int, _frame: FrameType | None) -> None:
    if os.getpid() == listening:  # not a forked child, whose calls they are not
        with contextlib.suppress(OSError, CollalgoError):
            dump()
