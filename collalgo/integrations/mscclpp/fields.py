"""Fields of a JSON document, with their limits."""

from collections.abc import Collection
from typing import Any

from collalgo.errors import ScheduleError


class Fields:
    """The fields of an object of a document.

    Parameters
    ----------
    given
        The object.
    where
        Its place, for errors.
    """

    def __init__(self, given: Any, where: str):
        if not isinstance(given, dict):
            raise ScheduleError(f"{where} must be an object, not {_shown(given)}")
        self._given, self.where = given, where

    def has(self, name: str) -> bool:
        """Whether there is a field."""
        return name in self._given

    def number(self, name: str, least: int, most: int, default: Any = None) -> int:
        """An integer."""
        return self._integer(self._given.get(name, default), name, least, most)

    def numbers(self, name: str, least: int, most: int) -> list[int]:
        """A list of integers, empty by default."""
        found = self._list(name)
        return [self._integer(each, name, least, most) for each in found]

    def text(
        self, name: str, default: str | None = None, among: Collection[str] = ()
    ) -> str:
        """A text."""
        found = self._given.get(name, default)
        if not isinstance(found, str) or (among and found not in among):
            wanted = f"one of {', '.join(among)}" if among else "a text"
            raise ScheduleError(
                f"{self.where}: {name} must be {wanted}, not {_shown(found)}"
            )
        return found

    def flag(self, name: str) -> bool:
        """A boolean, false by default."""
        found = self._given.get(name, False)
        if not isinstance(found, bool):
            raise ScheduleError(
                f"{self.where}: {name} must be true or false, not {_shown(found)}"
            )
        return found

    def documents(self, name: str, least: int, most: int) -> list["Fields"]:
        """A list of objects, empty by default."""
        found = self._list(name)
        if not least <= len(found) <= most:
            raise ScheduleError(
                f"{self.where}: {name} has {len(found)} items; it needs {least} to "
                f"{most}"
            )
        return [
            Fields(each, f"{self.where}, {name}[{i}]") for i, each in enumerate(found)
        ]

    def _list(self, name: str) -> list[Any]:
        found = self._given.get(name, [])
        if not isinstance(found, list):
            raise ScheduleError(
                f"{self.where}: {name} must be a list, not {_shown(found)}"
            )
        return found

    def _integer(self, found: Any, name: str, least: int, most: int) -> int:
        if type(found) is not int or not least <= found <= most:
            raise ScheduleError(
                f"{self.where}: {name} must be an integer from {least} to {most}, not "
                f"{_shown(found)}"
            )
        return found


def _shown(found: Any) -> str:
    """A short form of a value that was not expected."""
    if isinstance(found, dict | list):
        return "an object" if isinstance(found, dict) else "a list"
    if type(found) is int and abs(found) >= 1 << 64:
        return "a number of more than 64 bits"
    text = repr(found)
    return text if len(text) <= 40 else f"{text[:40]}..."
