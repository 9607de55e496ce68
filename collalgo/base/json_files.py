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
    return parse_json(read_text(path, LARGEST))


def parse_json(text: str) -> Any:
    """The document of a text; raises ValueError as :func:`read_json`."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        reason = f"it is not JSON: {error}"
    except RecursionError:
        reason = "its JSON is nested too deeply"
    except ValueError:
        reason = "its JSON has a number of too many digits"
    raise ValueError(reason)
