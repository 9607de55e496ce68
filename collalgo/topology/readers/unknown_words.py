"""Words that a format does not have: misspelt ones, or newer ones than its reader."""

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from collalgo.errors import TopologyError
from collalgo.topology.model import Topology


def warn_of_unknown(
    topology: Topology, what: str, given: Iterable[Any], known: Collection[str]
) -> None:
    """Warn of words that are not read; they are no errors, as formats grow.

    Parameters
    ----------
    topology
        The topology that is read, which gets the warnings, one for each word.
    what
        Where the words are, and what they are: "a block has the key".
    given, known
        The words of the file, and those of the format.
    """
    for word in map(str, given):
        if word not in known:
            close = get_close_matches(word[:60], known, 1)
            advice = f"; is it {close[0]}?" if close else ""
            topology.warn(
                f"{what} {word[:60]!r}, which is unknown and not read{advice}"
            )


def warn_of_keys(
    topology: Topology, what: str, entry: Any, known: Collection[str]
) -> None:
    """Warn of unknown keys of a mapping; its reader refuses other values."""
    if isinstance(entry, dict):
        warn_of_unknown(topology, f"{what} has the key", entry, known)


def warn_of_attributes(
    topology: Topology, root: Any, known: Mapping[str, Collection[str]]
) -> None:
    """Warn of unknown attributes of XML elements by their tags, if these are known."""
    for element in root.iter():
        if element.tag in known:
            what = f"<{element.tag}> has the attribute"
            warn_of_unknown(topology, what, element.attrib, known[element.tag])


def refuse_empty(what: str, values: Collection[Any], key: str) -> None:
    """Refuse a list without entries, as that of a truncated file."""
    if not values:
        raise TopologyError(f"{what}: {key} is empty; the file may be truncated")
