"""The native format: a topology as YAML or JSON, described in ``docs/topology.md``.

::

    collalgo: topology/1
    name: two GPUs
    parameters: {nvlink: 25.0}
    devices:
      - {id: "host0/gpu[0-1]", kind: gpu, host: host0, sm: 70}
    links:
      - {ends: [host0/gpu0, host0/gpu1], kind: nvlink, count: 2, bandwidth: 2*nvlink}

A range in an id stands for several devices, and a range in the ends of a link for as
many links. A bandwidth is a number, a parameter, a multiple of a parameter, or null if
unknown.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from collalgo.base import output_files
from collalgo.base.hostlist import expand
from collalgo.errors import TopologyError
from collalgo.topology.model import Kind, Link, LinkKind, Topology

VERSION = "topology/1"

_TOP = {"collalgo", "name", "about", "source", "sources", "parameters", "devices",
        "links", "warnings"}  # fmt: skip
_OF_LINK = {"ends", "kind", "count", "bandwidth", "latency", "assumed"}

Parameters = dict[str, float]


def build(document: Any, parameters: Parameters | None = None) -> Topology:
    """The topology of a document, with other values for some of its parameters.

    Raises
    ------
    TopologyError
        If the document or a parameter is wrong; the message names the element.
    """
    if not isinstance(document, dict) or document.get("collalgo") != VERSION:
        raise TopologyError(f"this is no document with 'collalgo: {VERSION}'")
    _no_others("the document", document, _TOP)
    values = _parameters(document, parameters or {})
    sources = document.get("source") or document.get("sources") or ""
    source = "; ".join(sources) if isinstance(sources, list) else str(sources)
    topology = Topology(str(document.get("name", "")), source)
    for entry in _entries(document, "devices"):
        _add(topology, entry)
    for entry in _entries(document, "links"):
        _link(topology, entry, values)
    for text in document.get("warnings") or []:
        topology.warn(str(text))
    return topology


def _parameters(document: dict[str, Any], given: Parameters) -> Parameters:
    values = dict(document.get("parameters") or {})
    unknown = sorted(set(given) - set(values))
    if unknown:
        raise TopologyError(
            f"{document.get('name')}: there is no parameter {unknown[0]!r}; "
            f"there are {', '.join(values) or 'none'}"
        )
    return values | given


def _no_others(what: str, entry: dict[str, Any], known: set[str]) -> None:
    others = sorted(str(key) for key in set(entry) - known)
    if others:
        raise TopologyError(
            f"{what} has an unknown key {others[0]!r}; "
            f"the keys are {', '.join(sorted(known))}"
        )


def _entries(document: dict[str, Any], key: str) -> list[dict[str, Any]]:
    entries = document.get(key) or []
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise TopologyError(f"{key} must be a list of mappings")
    return entries


def _add(topology: Topology, entry: dict[str, Any]) -> None:
    known = {"id", "kind", "host", "name"}
    missing = {"id", "kind"} - set(entry)
    if missing:
        raise TopologyError(f"device {entry}: {min(missing)!r} is missing")
    kind = _one_of(Kind, entry["kind"], f"device {entry['id']}")
    rest = {str(key): value for key, value in entry.items() if key not in known}
    ids = expand(str(entry["id"]))
    for id in ids:
        if id in topology.graph:
            raise TopologyError(f"device {id} is defined twice")
        host, name = str(entry.get("host", "")), str(entry.get("name", ""))
        topology.add(id, kind, host=host, name=name, **rest)


def _link(topology: Topology, entry: dict[str, Any], values: Parameters) -> None:
    ends = entry.get("ends")
    if not isinstance(ends, list) or len(ends) != 2:
        raise TopologyError(f"link {entry}: 'ends' must be a list of two ids")
    what = f"link {ends[0]} - {ends[1]}"
    _no_others(what, entry, _OF_LINK)
    kind = _one_of(LinkKind, entry.get("kind"), what)
    numbers = {
        "bandwidth": _number(entry.get("bandwidth"), values, what),
        "latency": _number(entry.get("latency"), values, what),
    }
    count = entry.get("count", 1)
    if not isinstance(count, int):
        raise TopologyError(f"{what}: the count {count!r} is not an integer")
    assumed = tuple(str(text) for text in entry.get("assumed") or ())
    for a, b in _pairs(ends, what):
        topology.link(a, b, kind, count=count, assumed=assumed, **numbers)


def _pairs(ends: list[Any], what: str) -> Iterator[tuple[str, str]]:
    """The ends of all links that an entry with ranges stands for."""
    firsts, seconds = (expand(str(end)) for end in ends)
    if len(seconds) == 1:
        seconds *= len(firsts)
    if len(firsts) != len(seconds):
        raise TopologyError(
            f"{what}: {len(firsts)} devices at one end and {len(seconds)} at the other"
        )
    return zip(firsts, seconds, strict=True)


def _one_of(kinds: Any, word: Any, what: str) -> Any:
    try:
        return kinds(word)
    except ValueError:
        choices = ", ".join(kind.value for kind in kinds)
        raise TopologyError(
            f"{what}: no kind {word!r}; choose one of {choices}"
        ) from None


def _number(value: Any, values: Parameters, what: str) -> float | None:
    """A number, a parameter or a multiple of a parameter."""
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    found = re.fullmatch(r"(?:(\d{1,6}) *\* *)?([A-Za-z]\w*)", str(value))
    if found is None or found[2] not in values:
        raise TopologyError(
            f"{what}: {value!r} is neither a number nor one of the parameters "
            f"{', '.join(values) or '(none)'}"
        )
    return int(found[1] or 1) * float(values[found[2]])


def document(topology: Topology) -> dict[str, Any]:
    """Convert a topology to a document."""
    result: dict[str, Any] = {"collalgo": VERSION, "name": topology.name}
    if topology.source:
        result["source"] = topology.source
    result["devices"] = [
        {"id": d.id, "kind": d.kind.value}
        | ({"host": d.host} if d.host else {})
        | ({"name": d.name} if d.name else {})
        | d.attributes
        for d in topology.devices()
    ]
    result["links"] = [_entry(link) for link in topology.links]
    if topology.warnings:
        result["warnings"] = topology.warnings
    return result


def _entry(link: Link) -> dict[str, Any]:
    entry: dict[str, Any] = {"ends": list(link.ends), "kind": link.kind.value}
    if link.count != 1:
        entry["count"] = link.count
    entry["bandwidth"] = link.bandwidth
    if link.latency is not None:
        entry["latency"] = link.latency
    if link.assumed:
        entry["assumed"] = list(link.assumed)
    return entry


def text(topology: Topology, form: str = "yaml") -> str:
    """Convert a topology to text, ``yaml`` or ``json``."""
    return _text(document(topology), form)


def _text(found: dict[str, Any], form: str) -> str:
    import yaml

    if form == "json":
        return json.dumps(found, indent=1) + "\n"
    shown: str = yaml.safe_dump(
        found, sort_keys=False, default_flow_style=None, width=100
    )
    return shown


def _is_ours(data: bytes) -> bool:
    """Whether a file is to the letter what is written here, and not by hand."""
    import yaml

    if b"collalgo" not in data:
        return False
    form = "json" if data.startswith(b"{") else "yaml"
    found = json.loads(data) if form == "json" else yaml.safe_load(data)
    return found["collalgo"] == VERSION and _text(found, form) == data.decode()


TOPOLOGY = output_files.Format("a topology", _is_ours)


def write(topology: Topology, path: Any, *, force: bool = False) -> None:
    """Write a file, as JSON if its name ends in ``.json``, else as YAML."""
    form = "json" if str(path).endswith(".json") else "yaml"
    output_files.write(path, text(topology, form), TOPOLOGY, force=force)
