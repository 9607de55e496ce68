"""What notebooks show of an object: a picture, or its text and why there is no picture.

Notebooks ask an object for ``_repr_svg_()`` and ``_repr_html_()``, and show its text if
both are None.
"""

import contextlib
from collections.abc import Callable
from html import escape

#: Returns the reason why there is no picture, or "".
Obstacle = Callable[[], str]


def picture(obstacle: Obstacle, draw: Callable[[], str]) -> str | None:
    """The SVG of an object, or None; a failure to draw never stops a notebook."""
    with contextlib.suppress(Exception):
        return None if obstacle() else draw()
    return None


def text(of: object, obstacle: Obstacle) -> str | None:
    """The text of an object that has no picture, with the reason, as HTML."""
    with contextlib.suppress(Exception):
        if why := obstacle():
            return f"<pre>{escape(str(of))}</pre><p><small>{escape(why)}</small></p>"
    return None
