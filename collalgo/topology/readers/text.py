"""Shared parts of readers: safe XML, JSON and YAML."""

import json
import re
from collections import Counter
from functools import lru_cache
from typing import Any, NamedTuple

from collalgo.base.yaml_documents import DEEPEST, documents, line_of
from collalgo.errors import TopologyError
from collalgo.topology.values import name


def xml(text: str) -> Any:
    """Parse XML, refusing entities and deep nesting, and return the root element."""
    from defusedxml import ElementTree
    from defusedxml.common import DefusedXmlException

    try:
        root = ElementTree.fromstring(text.strip())
    except DefusedXmlException as error:
        raise TopologyError(f"XML with entities is refused: {error}") from None
    except (ElementTree.ParseError, ValueError) as error:
        raise TopologyError(f"invalid XML: {error}") from None
    level = [root]
    for _ in range(DEEPEST):
        level = [child for element in level for child in element]
        if not level:
            return root
    raise TopologyError(f"elements are nested more than {DEEPEST} deep")


#: The constructs before the first element of XML, each with its end.
_BEFORE = (("<?", "?>"), ("<!--", "-->"), ("<!DOCTYPE", ">"))


def root_tag(text: str) -> str:
    """The name of the root element of XML, or ""."""
    start = text[: 1 << 16].lstrip("\ufeff \t\r\n")
    while start.startswith(("<?", "<!")):
        end = next((e for begin, e in _BEFORE if start.startswith(begin)), None)
        if end is None:
            return ""
        if end == ">" and "[" in start.partition(">")[0]:
            end = "]>"  # definitions, which the reader refuses later
        start = start.partition(end)[2].lstrip()
    found = re.match(r"<([A-Za-z_][\w.:-]{0,100})", start)
    return found[1] if found else ""


class Structured(NamedTuple):
    """The documents of a text as JSON or YAML, or the reason why it is neither."""

    documents: list[Any]
    error: str = ""


@lru_cache(maxsize=1)
def structured(text: str) -> Structured:
    """Parse JSON or YAML, once for all readers that examine a text."""
    is_json = text.lstrip()[:1] in ("{", "[")
    try:
        if is_json and (value := _json(text)) is not None:
            return Structured([value])
        if is_json or _LIKE_YAML.search(text):
            return Structured(yaml_of(text))
    except (TopologyError, RecursionError) as error:
        return Structured([], str(error))
    return Structured([], "neither JSON nor YAML")


def _json(text: str) -> Any:
    """The value of JSON; None if it is malformed."""
    try:
        return json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise TopologyError("invalid JSON: it is nested too deep") from None
    except TopologyError as error:
        raise TopologyError(f"invalid JSON: {error}") from None
    except ValueError:
        return None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, none of whose keys may occur twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise TopologyError(
            f"the key {counts.most_common(1)[0][0][:40]!r} occurs twice"
        )
    return found


def json_of(text: str) -> Any:
    """The value of JSON or of a flow mapping of YAML; None for other texts."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    found = structured(text).documents
    return found[0] if len(found) == 1 else None


def yaml_of(text: str) -> list[Any]:
    """The documents of YAML.

    Raises
    ------
    TopologyError
        If it is invalid or exceeds the limits; the message gives the line.
    """
    try:
        return documents(text)
    except ValueError as error:
        kind = "JSON or YAML" if text.lstrip()[:1] in ("{", "[") else "YAML"
        raise TopologyError(f"invalid {kind}: {error}") from None


#: A line with a key, or an entry of a list.
_LIKE_YAML = re.compile(r"^[ \t]*[\"'{\w./-]+[\"']?[ \t]*:|^[ \t]*-\s", re.MULTILINE)


def mappings(text: str) -> list[dict[str, Any]]:
    """The top-level mappings of YAML or JSON; empty for other texts."""
    found = structured(text).documents
    flat = [e for d in found for e in (d if isinstance(d, list) else [d])]
    return [entry for entry in flat if isinstance(entry, dict)]


def field(entry: Any, key: str, kind: type, what: str) -> Any:
    """A value of a mapping.

    Raises
    ------
    TopologyError
        If it is missing, or not of the kind: dict, list or str.
    """
    where = f"{line_of(entry)}{what}"
    if not isinstance(entry, dict):
        raise TopologyError(f"{where} must be a mapping, not {str(entry)[:40]!r}")
    if entry.get(key) is None:
        raise TopologyError(f"{where}: {key!r} is missing")
    if kind is str:
        return name(entry[key], f"{where}: {key}")
    if not isinstance(entry[key], kind):
        word = "mapping" if kind is dict else "list"
        raise TopologyError(
            f"{where}: {key} must be a {word}, not {str(entry[key])[:40]!r}"
        )
    return entry[key]
