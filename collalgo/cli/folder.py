"""A folder as the value of an option."""

from typing import Any

import click


class Folder(click.Path):
    """A folder that may be made; an empty name, as of an unset variable, is refused."""

    def convert(self, value: Any, *details: Any) -> Any:
        if value == "":
            self.fail("the name is empty; name a folder, or . for this one", *details)
        return super().convert(value, *details)
