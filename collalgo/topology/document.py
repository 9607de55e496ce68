"""The native format: a topology as YAML or JSON, described in ``docs/topology.md``.

::

    collalgo: topology/1
    name: two GPUs
    parameters: {nvlink: 25.0}
    devices:
      - {id: "host0/gpu[0-1]", kind: gpu, host: host0, sm: 70}
    links:
      - {ends: [host0/gpu0, host0/gpu1], kind: nvlink, count: 2, bandwidth: 2*nvlink}

Ranges in ``id`` expand to devices; ranges in ``ends`` pair one to one. A range in the
host, the name or another word of several devices is spread over them in order. A number
may be written as a parameter, a multiple of a parameter, or null if unknown.
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from collalgo.base import output_files
from collalgo.base.hostlist import expand
from collalgo.base.seal import MAKER
from collalgo.base.units import counted
from collalgo.base.yaml_documents import line_of
from collalgo.errors import TopologyError
from collalgo.topology.document_values import Parameters, column, number_of, whole
from collalgo.topology.elements import check_printable, identifier
from collalgo.topology.model import Kind, Link, LinkKind, Topology
from collalgo.topology.values import name, number

VERSION = "topology/1"

TOPOLOGY = output_files.Format("a topology", endings=("yaml", "yml", "json"))

_TOP = {"collalgo", "maker", "name", "about", "source", "sources", "parameters",
        "devices", "links", "warnings"}  # fmt: skip
_OF_LINK = {"ends", "kind", "count", "bandwidth", "latency", "assumed"}

#: The links of a document by their kind and ends, in the order in which it has them.
Given = set[tuple[LinkKind, str, str]]


def build(document: Any, parameters: Parameters | None = None) -> Topology:
    """The topology of a document, with other values for some of its parameters.

    Raises
    ------
    TopologyError
        If the document or a parameter is wrong; the message names the element.
    """
    if not isinstance(document, dict) or document.get("collalgo") != VERSION:
        raise TopologyError(f"the file does not begin with 'collalgo: {VERSION}'")
    _no_others("the document", document, _TOP)
    _check_words(document)
    values = _parameters(document, parameters or {})
    sources = _list(document, "source") or _list(document, "sources")
    source = "; ".join(map(str, sources))
    topology = Topology(str(document.get("name", "")), source)
    given: Given = set()
    for add, key in ((_add, "devices"), (partial(_link, given), "links")):
        for entry in _entries(document, key):
            try:
                add(topology, entry, values)
            except TopologyError as error:
                raise TopologyError(f"{line_of(entry)}{error}") from None
    _warn_of_both_orders(topology, given)
    for text in _list(document, "warnings"):
        topology.warn(str(text))
    return topology


def _warn_of_both_orders(topology: Topology, given: Given) -> None:
    """Warn of links that are listed there and back, whose cables add up."""
    both = [(kind, a, b) for kind, a, b in given if a < b and (kind, b, a) in given]
    if not both:
        return
    kind, a, b = min(both)
    link = topology.between(a, b).get(kind)  # None if it carries nothing
    speed = f" to {link.bandwidth:g} GB/s" if link and link.bandwidth else ""
    topology.warn(
        f"{counted(len(both), 'link')} listed in both orders of the ends, as "
        f"{kind.value} {a} - {b}: the cables add up{speed}; a link has its bandwidth "
        "in each direction, so list it once"
    )


def _check_words(document: dict[str, Any]) -> None:
    """Refuse a name with control characters, and a mark that is not collalgo's."""
    check_printable(str(document.get("name", "")))
    maker = document.get("maker", MAKER)
    if not isinstance(maker, str) or MAKER not in maker:
        raise TopologyError(
            f"maker: {maker!r:.40} is not the mark of a file that collalgo wrote; "
            "leave it out"
        )


def _parameters(document: dict[str, Any], given: Parameters) -> Parameters:
    values = document.get("parameters") or {}
    if not isinstance(values, dict):
        raise TopologyError(f"parameters must map names to numbers, not {values!r:.40}")
    unknown = sorted(set(given) - set(values))
    if unknown:
        raise TopologyError(
            f"{document.get('name')} has no parameter {unknown[0]!r}; its file "
            f"declares {', '.join(map(str, values)) or 'none'}"
        )
    return {
        str(name): number(value, f"parameter {name}")
        for name, value in (values | given).items()
    }


def _list(document: dict[str, Any], key: str) -> list[Any]:
    found = document.get(key) or []
    return found if isinstance(found, list) else [found]


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


def _add(topology: Topology, entry: dict[str, Any], values: Parameters) -> None:
    missing = {"id", "kind"} - set(entry)
    if missing:
        raise TopologyError(f"device {entry!r:.80}: {min(missing)!r} is missing")
    what = f"device {entry['id']!s:.60}"
    kind = _one_of(Kind, entry["kind"], what)
    ids = expand(name(entry["id"], "id"))
    rest = {
        str(key): value for key, value in entry.items() if key not in ("id", "kind")
    }
    columns = {
        key: column(value, key, ids, values, what) for key, value in rest.items()
    }
    for i, id in enumerate(ids):
        if identifier(id) in topology:
            raise TopologyError(f"device {id} is defined twice")
        topology.add(id, kind, **{key: column[i] for key, column in columns.items()})


def _link(
    given: Given, topology: Topology, entry: dict[str, Any], values: Parameters
) -> None:
    ends = entry.get("ends")
    if not isinstance(ends, list) or len(ends) != 2:
        raise TopologyError(f"link {entry!r:.80}: 'ends' must be a list of two ids")
    what = f"link {ends[0]!s:.60} - {ends[1]!s:.60}"
    _no_others(what, entry, _OF_LINK)
    kind = _one_of(LinkKind, entry.get("kind"), what)
    numbers = {
        key: None
        if (value := number_of(entry.get(key), values, what)) is None
        else float(value)
        for key in ("bandwidth", "latency")
    }
    count = whole(entry.get("count", 1), values, f"{what}: count")
    assumed = tuple(str(text) for text in _list(entry, "assumed"))
    for a, b in _pairs(ends, what):
        topology.link(a, b, kind, count=count, assumed=assumed, **numbers)
        given.add((kind, a, b))


def _pairs(ends: list[Any], what: str) -> Iterator[tuple[str, str]]:
    """The ends of all links of an entry with ranges."""
    firsts, seconds = (
        [identifier(id) for id in expand(name(end, what))] for end in ends
    )
    if len(seconds) == 1:
        seconds *= len(firsts)
    if len(firsts) == 1:
        firsts *= len(seconds)
    if len(firsts) != len(seconds):
        raise TopologyError(
            f"{what}: {len(firsts)} devices at one end and {len(seconds)} at the "
            "other; make them equally many or one of them one, by a link for each host"
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
    if link.assumed and link.fraction == 1:  # else another speed would undo a fault
        entry["assumed"] = list(link.assumed)
    return entry


def text(topology: Topology, form: str = "yaml") -> str:
    """Convert a topology to text, ``yaml`` or ``json``."""
    import yaml

    found = {"collalgo": VERSION, "maker": TOPOLOGY.mark, **document(topology)}
    if form == "json":
        return json.dumps(found, indent=1) + "\n"
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # ten times as fast
    shown: str = yaml.dump(
        found, Dumper=dumper, sort_keys=False, default_flow_style=None, width=100
    )
    return shown


def write(topology: Topology, path: Any, *, force: bool = False) -> None:
    """Write a file, as JSON if its name ends in ``.json``, else as YAML."""
    form = "json" if output_files.ending(Path(path)) == "json" else "yaml"
    output_files.write(path, text(topology, form), TOPOLOGY, force=force)
