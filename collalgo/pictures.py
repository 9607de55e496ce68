"""Pictures by matplotlib, which is imported when one is drawn."""

from typing import Any


def new_figure(width: float, height: float) -> Any:
    """An empty figure of so many inches.

    Raises
    ------
    ImportError
        Without matplotlib; it comes with ``pip install 'collalgo[plot]'``.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        message = "drawing needs matplotlib: pip install 'collalgo[plot]'"
        raise ImportError(message) from error
    return Figure(figsize=(width, height), layout="constrained")
