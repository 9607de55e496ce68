"""What notebooks show of an object: a picture, or its text and why there is no picture.

Notebooks ask an object for ``_repr_svg_()`` and ``_repr_html_()``, and show its text if
both are None.
"""

import contextlib
from collections.abc import Callable
from html import escape

from collalgo.base import page

#: Returns the reason why there is no picture, or "".
Obstacle = Callable[[], str]


def picture(obstacle: Obstacle, draw: Callable[[], str]) -> str | None:
    """The picture of an object, or None; a failure to draw never stops a notebook."""
    with contextlib.suppress(Exception):
        return None if obstacle() else draw()
    return None


def text(of: object, obstacle: Obstacle) -> str | None:
    """The text of an object that has no picture, with the reason, as HTML."""
    with contextlib.suppress(Exception):
        if why := obstacle():
            return f"<pre>{escape(str(of))}</pre><p><small>{escape(why)}</small></p>"
    return None


def framed(
    of: object, obstacle: Obstacle, make_page: Callable[[], str], height: int
) -> str | None:
    """The page of an object in a frame, ``height`` pixels high, or its text."""
    return text(of, obstacle) or picture(
        obstacle, lambda: page.frame(make_page(), height)
    )
