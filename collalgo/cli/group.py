"""The kind of group that the commands of collalgo are in."""

import signal
import sys
from typing import Any

import click

from collalgo.base.legible import escaped
from collalgo.base.wrapping import wrapped

#: What click prints before the message of an error.
ERROR = "Error: "

#: The settings of a command line, which its subcommands inherit.
SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "show_default": True}


class Group(click.Group):
    """A group whose commands end with 130 at SIGINT, as shells expect.

    Those of click end with 1, as at an error. Errors are wrapped at the terminal, and
    have escapes in place of control characters.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command of a context."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(128 + signal.SIGINT)
        except click.ClickException as error:
            whole = wrapped(f"{ERROR}{escaped(error.message)}", stderr=True)
            vars(error)["message"] = whole.removeprefix(ERROR)  # declared final
            raise
