"""YAML of users, read within limits: plain values, without aliases and tags.

Scalars are those of YAML 1.2's core schema, limited to those that PyYAML writes: ``no``
and ``1:30`` are words, and so are numbers with leading zeros, as in names of hosts.
"""

import re
from collections.abc import Iterator
from typing import Any

#: The most levels of nesting, and the most values of a text.
DEEPEST, MOST_VALUES = 100, 250_000

_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None,
          "true": True, "True": True, "TRUE": True,
          "false": False, "False": False, "FALSE": False}  # fmt: skip
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_HEXADECIMAL = re.compile(r"[-+]?0x[0-9a-fA-F]{1,16}")
_FLOAT = re.compile(r"[-+]?(?:[0-9]{1,300}\.[0-9]{0,300}(?:[eE][-+][0-9]{1,3})?)")
_SPECIAL = re.compile(r"([-+]?)\.(inf|Inf|INF|nan|NaN|NAN)")

_TAG = "tag:yaml.org,2002:"

Event = Any


class Mapping(dict[Any, Any]):
    """A mapping that knows its line, from 1."""

    line = 0


def line_of(value: object) -> str:
    """The line of a mapping as the beginning of a message, or ""."""
    line = value.line if isinstance(value, Mapping) else 0
    return f"line {line}: " if line else ""


def documents(text: str) -> list[Any]:
    """The documents of a text, as mappings with lines, lists, words and numbers.

    Raises
    ------
    ValueError
        If it is not YAML, is nested too deep, has too many values, an alias, a tag of a
        type of a program, or a key twice; the message gives the line.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return list(_Documents(yaml.parse(text, Loader=loader)).all())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise ValueError(f"{line}{str(error.problem)[:100]}") from None
    except yaml.YAMLError as error:
        raise ValueError(str(error).partition("\n")[0][:100]) from None


class _Documents:
    """The state of composing values from the events of a parser."""

    def __init__(self, events: Iterator[Event]):
        self._events = events
        self._depth = self._values = 0

    def all(self) -> Iterator[Any]:
        for event in self._events:
            if type(event).__name__ == "DocumentStartEvent":
                yield self._value(next(self._events))

    def _value(self, event: Event) -> Any:
        self._values += 1
        if self._values > MOST_VALUES:
            raise _refusal(
                event, f"more than {MOST_VALUES} values; JSON may have more than YAML"
            )
        kind = type(event).__name__
        if kind == "ScalarEvent":
            return _scalar(event)
        if kind == "AliasEvent":
            raise _refusal(event, "aliases of YAML are refused")
        _check_tag(event, ("seq", "map"))
        self._depth += 1
        if self._depth > DEEPEST:
            raise _refusal(event, f"YAML is nested more than {DEEPEST} deep")
        found = self._list() if kind == "SequenceStartEvent" else self._mapping(event)
        self._depth -= 1
        return found

    def _list(self) -> list[Any]:
        found = []
        while type(event := next(self._events)).__name__ != "SequenceEndEvent":
            found.append(self._value(event))
        return found

    def _mapping(self, start: Event) -> Mapping:
        found = Mapping()
        found.line = start.start_mark.line + 1
        while type(event := next(self._events)).__name__ != "MappingEndEvent":
            key = self._value(event)
            if isinstance(key, dict | list):
                raise _refusal(event, "a key must be a word")
            if key in found:
                raise _refusal(event, f"the key {str(key)[:40]!r} occurs twice")
            found[key] = self._value(next(self._events))
        return found


def _refusal(event: Event, text: str) -> ValueError:
    return ValueError(f"line {event.start_mark.line + 1}: {text}")


def _scalar(event: Event) -> Any:
    """The value of a scalar by its tag, or of a plain one by its form."""
    text: str = event.value
    if event.implicit[0]:
        return _plain(text)
    if event.tag in (None, "!", _TAG + "str"):
        return text
    _check_tag(event, ("int", "float", "bool", "null"))
    return _plain(text)


def _check_tag(event: Event, known: tuple[str, ...]) -> None:
    if event.tag not in (None, "!", *(_TAG + name for name in known)):
        raise _refusal(event, f"the tag {event.tag[:40]!r} is refused")


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _HEXADECIMAL.fullmatch(text):
        return int(text, 16)
    if _FLOAT.fullmatch(text) or _SPECIAL.fullmatch(text):
        return float(text.replace(".", "", 1) if text[-1] in "fFnN" else text)
    return text
