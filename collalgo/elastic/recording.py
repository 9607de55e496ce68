"""Record the error of a rank, so that its launcher shows it with its traceback."""

import json
import os
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from collalgo.launch.error_records import record_error

Result = TypeVar("Result")

#: The variable by which torchrun names the file for the error of a rank.
OF_TORCHRUN = "TORCHELASTIC_ERROR_FILE"


def record(function: Callable[..., Result]) -> Callable[..., Result]:
    """Record an exception that ends a function, usually the main one of a script.

    The launcher then shows its traceback also if the rank prints more before it ends,
    and whether or not it was printed at all. Under torchrun the file is written that
    torchrun reads. Without a launcher the function is called, and nothing is written.

    Examples
    --------
    >>> from collalgo import elastic
    >>> @elastic.record
    ... def main():
    ...     return 3
    >>> main()
    3
    """

    @wraps(function)
    def recording(*args: Any, **named: Any) -> Result:
        try:
            return function(*args, **named)
        except Exception as error:
            record_error(traceback.format_exc())
            _record_for_torchrun(error)
            raise

    return recording


def _record_for_torchrun(error: Exception) -> None:
    """Write the file of torchrun, if it has named one."""
    path = os.environ.get(OF_TORCHRUN)
    if not path:
        return
    what = {
        "message": f"{type(error).__name__}: {error}",
        "extraInfo": {
            "py_callstack": traceback.format_exc(),
            "timestamp": str(int(time.time())),
        },
    }
    with suppress(OSError):
        Path(path).write_text(json.dumps({"message": what}))
