"""Infos: dictionaries of hints, all of which the library ignores."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from collalgo.integrations.as_mpi4py.constants import NUMBERS
from collalgo.integrations.as_mpi4py.errors import fail
from collalgo.integrations.as_mpi4py.handles import Handle, State, constant


class InfoState(State):
    """The texts of an info."""

    def __init__(self, items: dict[str, str], predefined: str = ""):
        super().__init__(predefined)
        self.items = items


def _items(items: Any) -> dict[str, str]:
    """The items of an info, a mapping or pairs."""
    if not items:
        return {}
    return dict(items.items() if hasattr(items, "items") else items)


class Info(Handle):
    """Hints by names; ``MPI.Info``."""

    null_name, error_name = "INFO_NULL", "ERR_INFO"

    @classmethod
    def Create(cls, items: Any = None) -> "Info":
        """Make an info of a mapping or of pairs of texts."""
        self: Info = cls.of_state(InfoState({}))
        self.update(items or ())
        return self

    @classmethod
    def Create_env(cls, args: Any = None) -> "Info":
        """Make an info that describes how this process was started.

        Its texts are cut to the longest of an info.
        """
        line = list(sys.argv if args is None else args)
        items = {"command": line[0] if line else "", "argv": " ".join(line[1:])}
        longest = NUMBERS["MAX_INFO_VAL"]
        return cls.Create({key: text[:longest] for key, text in items.items()})

    def Dup(self) -> "Info":
        """A copy."""
        return type(self).Create(self.state.items)

    def Get(self, key: str) -> str | None:
        """The text of a key; None without one."""
        found: str | None = self.state.items.get(_key(key))
        return found

    def Set(self, key: str, value: str) -> None:
        """Set the text of a key."""
        if len(value) > NUMBERS["MAX_INFO_VAL"]:
            fail("ERR_INFO_VALUE", f"the text of {key!r} has {len(value)} characters")
        self.state.items[_key(key)] = value

    def Delete(self, key: str) -> None:
        """Delete a key."""
        if self.state.items.pop(_key(key), None) is None:
            fail("ERR_INFO_NOKEY", f"the info has no key {key!r}")

    def Get_nkeys(self) -> int:
        """The number of keys."""
        return len(self.state.items)

    def Get_nthkey(self, n: int) -> str:
        """A key by its place, from 0."""
        keys = list(self.state.items)
        if not 0 <= n < len(keys):
            fail("ERR_ARG", f"the info has {len(keys)} keys, not a key {n}")
        return str(keys[n])

    def __reduce__(self) -> Any:
        if not self or self.state.predefined:
            return super().__reduce__()
        return type(self).Create, (dict(self.state.items),)

    # ---- as a dictionary

    def __len__(self) -> int:
        return len(self._state.items) if self._state else 0

    def __contains__(self, key: object) -> bool:
        return bool(self._state) and key in self._state.items

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __getitem__(self, key: str) -> str:
        if (found := self.get(key)) is None:
            raise KeyError(key)
        return found

    def __setitem__(self, key: str, value: str) -> None:
        if not self:
            raise KeyError(key)
        self.Set(key, value)

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self.Delete(key)

    def get(self, key: str, default: str | None = None) -> str | None:
        """The text of a key, or a default."""
        return self._state.items.get(key, default) if self._state else default

    def keys(self) -> list[str]:
        """The keys."""
        return list(self._state.items) if self._state else []

    def values(self) -> list[str]:
        """The texts."""
        return [self[key] for key in self.keys()]

    def items(self) -> list[tuple[str, str]]:
        """The keys with their texts."""
        return [(key, self[key]) for key in self.keys()]

    def update(
        self,
        items: "Info | Mapping[str, str] | Iterable[tuple[str, str]]" = (),
        **kwds: str,
    ) -> None:
        """Set several texts."""
        if not self:
            raise KeyError("this info is null")
        for key, value in {**_items(items), **kwds}.items():
            self.Set(key, value)

    def pop(self, key: str, *default: str) -> str:
        """Delete a key: its text, or a default."""
        if key not in self:
            if default:
                return default[0]
            raise KeyError(key)
        found = self[key]
        self.Delete(key)
        return found

    def popitem(self) -> tuple[str, str]:
        """Delete the last key: it and its text."""
        if not len(self):
            raise KeyError("this info is empty")
        key = self.keys()[-1]
        return key, self.pop(key)

    def copy(self) -> "Info":
        """A copy, also of a null one."""
        return self.Dup() if self else type(self)()

    def clear(self) -> None:
        """Delete all keys."""
        if self:
            self.state.items.clear()


def _key(key: str) -> str:
    """A key that is not too long."""
    if not 0 < len(key) <= NUMBERS["MAX_INFO_KEY"]:
        fail("ERR_INFO_KEY", f"a key of an info has {len(key)} characters")
    return key


INFO_NULL = constant("INFO_NULL", Info())
INFO_ENV = constant("INFO_ENV", Info.Create_env())
