"""Shared parts of readers: numbers with limits, and safe XML, JSON and YAML."""

import json
import re
from typing import Any

from collalgo.errors import TopologyError

#: The greatest depth of nesting of XML, JSON and YAML.
DEEPEST = 100


def number(value: Any, what: str, least: float = 0.0, most: float = 1e12) -> float:
    """Parse a number within limits.

    Raises
    ------
    TopologyError
        If it is invalid or out of range; the message begins with ``what``.
    """
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        raise TopologyError(f"{what}: {str(value)[:40]!r} is not a number") from None
    if not least <= found <= most:
        raise TopologyError(f"{what}: {found:g} is not between {least:g} and {most:g}")
    return found


def integer(value: Any, what: str, least: int = 0, most: int = 1_000_000) -> int:
    """Parse an integer within limits, decimal or with 0x."""
    text = str(value).strip()
    if not re.fullmatch(r"-?(0[xX][0-9a-fA-F]{1,16}|\d{1,18})", text):
        raise TopologyError(f"{what}: {text[:40]!r} is not an integer")
    found = int(text, 16 if "x" in text.lower() else 10)
    if not least <= found <= most:
        raise TopologyError(f"{what}: {found} is not between {least} and {most}")
    return found


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


def json_of(text: str) -> Any:
    """The value of JSON, or None if invalid."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def yaml_of(text: str) -> list[Any]:
    """The documents of YAML; aliases are refused, as they can expand exponentially."""
    import yaml

    class Plain(yaml.SafeLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise TopologyError("aliases of YAML are refused")
            self.depth = getattr(self, "depth", 0) + 1
            if self.depth > DEEPEST:
                raise TopologyError(f"YAML is nested more than {DEEPEST} deep")
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    try:
        return list(yaml.load_all(text, Plain))
    except yaml.YAMLError as error:
        raise TopologyError(f"invalid YAML: {str(error)[:200]}") from None


#: A line with a key, or an entry of a list.
_LIKE_YAML = re.compile(r"^[ \t]*[\"'{\w./-]+[\"']?[ \t]*:|^[ \t]*-\s", re.MULTILINE)


def mappings(text: str) -> list[dict[str, Any]]:
    """The top-level mappings of YAML or JSON; empty for other texts."""
    try:
        value = json_of(text)
        if value is None and not _LIKE_YAML.search(text):
            return []
        documents = yaml_of(text) if value is None else [value]
    except (TopologyError, RecursionError):
        return []
    flat = [e for d in documents for e in (d if isinstance(d, list) else [d])]
    return [entry for entry in flat if isinstance(entry, dict)]
