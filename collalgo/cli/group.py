"""The kind of group that the commands of collalgo are in."""

import signal
import sys
from typing import Any

import click


class Group(click.Group):
    """A group whose commands end with 130 at SIGINT, as shells expect.

    Those of click end with 1, as at an error.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command of a context."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(128 + signal.SIGINT)
