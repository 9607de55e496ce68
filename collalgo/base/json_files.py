"""Read JSON files that others may have written or damaged."""

import json
from pathlib import Path
from typing import Any

from collalgo.base.input_files import read_text

#: The most bytes of a file that are parsed.
LARGEST = 64 << 20


def read_json(path: Path) -> Any:
    """The document of a file.

    Raises
    ------
    ValueError
        With the reason, if it is not JSON, too large or nested too deeply, or if it
        cannot be read.
    """
    try:
        return json.loads(read_text(path, LARGEST))
    except json.JSONDecodeError as error:
        reason = f"it is not JSON: {error}"
    except RecursionError:
        reason = "its JSON is nested too deeply"
    raise ValueError(reason)
