"""Read JSON files that others may have written or damaged."""

import json
from pathlib import Path
from typing import Any

#: The most bytes of a file that are parsed.
LARGEST = 64 << 20


def read_json(path: Path) -> Any:
    """The document of a file.

    Raises
    ------
    ValueError
        With the reason, if it is no JSON, too large or nested too deeply, or cannot be
        read.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise ValueError(f"it has more than {LARGEST} bytes")
        return json.loads(data.decode())
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is no UTF-8"
    except json.JSONDecodeError as error:
        reason = f"it is no JSON: {error}"
    except RecursionError:
        reason = "its JSON is nested too deeply"
    except OSError as error:
        reason = f"it cannot be read: {error.strerror}"
    raise ValueError(reason)
