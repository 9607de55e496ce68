"""The communication nodes of a Chakra trace, in each of its forms.

A trace is a sequence of messages of Protocol Buffers, each preceded by its length,
first the metadata and then the nodes; or these messages as JSON, one after the other;
or one JSON document with ``workload_graph``. Source: et_def.proto, the jsonizer and the
feeder of mlcommons/chakra.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from collalgo.integrations.chakra.wire import ChakraError, delimited, fields, signed

#: The types of nodes that communicate: send, receive and collective.
SEND, RECV, COLLECTIVE = 5, 6, 7
TYPES = {"COMM_SEND_NODE": SEND, "COMM_RECV_NODE": RECV, "COMM_COLL_NODE": COLLECTIVE}

#: The attributes of nodes that calls have.
WANTED = ("comm_type", "comm_size", "pg_name")

#: The numbers of fields: of a node, and of an attribute.
ID, NAME, TYPE, ATTRIBUTE = 1, 2, 3, 10
ATTRIBUTE_NAME, TEXT = 1, 29
UNSIGNED, ZIGZAG = (5, 7, 9, 11, 13, 27), (15, 17)

#: The fields of an attribute in JSON that have numbers or texts.
NUMBERS = ("int64Val", "int32Val", "uint64Val", "uint32Val", "sint64Val", "sint32Val")

#: The most nodes of a trace.
MOST = 1 << 22


class Node(NamedTuple):
    """A node that communicates: its type, and its attributes by name."""

    id: int
    name: str
    type: int
    attributes: dict[str, Any]


def nodes_of(data: bytes) -> Iterator[Node]:
    """The communication nodes of a trace.

    Raises
    ------
    ChakraError
        If the trace is damaged.
    """
    if data[:2] == b"\x1f\x8b":
        raise ChakraError("it is compressed; uncompress it by gunzip")
    if data.lstrip()[:1] == b"{":
        return _of_json(data)
    return _of_messages(data)


def _of_messages(data: bytes) -> Iterator[Node]:
    _, at = delimited(data, 0)  # the metadata
    for _ in range(MOST):
        if at == len(data):
            return
        message, at = delimited(data, at)
        found = list(fields(message))
        about = dict(found)
        kind = about.get(TYPE, 0)
        if kind in (SEND, RECV, COLLECTIVE):
            listed = [value for number, value in found if number == ATTRIBUTE]
            pairs = dict(_attribute(each) for each in listed)
            name = _text(about.get(NAME, b""))
            yield Node(_number(about.get(ID, 0)), name, _number(kind), pairs)
    raise ChakraError(f"it has more than {MOST} nodes")


def _attribute(data: int | bytes) -> tuple[str, Any]:
    """The name and the value of an attribute; None for other types of values."""
    name = ""
    value: str | int | None = None
    if isinstance(data, int):
        raise ChakraError("an attribute has the type of a number")
    for number, found in fields(data):
        if number == ATTRIBUTE_NAME:
            name = _text(found)
        elif number == TEXT:
            value = _text(found)
        elif number in UNSIGNED:
            value = signed(_number(found))
        elif number in ZIGZAG:
            value = (_number(found) >> 1) ^ -(_number(found) & 1)
    return name, value


def _text(found: int | bytes) -> str:
    if isinstance(found, int):
        raise ChakraError("a text has the type of a number")
    return found.decode(errors="replace")


def _number(found: int | bytes) -> int:
    if not isinstance(found, int):
        raise ChakraError("a number has the type of a text")
    return found


def _of_json(data: bytes) -> Iterator[Node]:
    text, decoder = data.decode(errors="replace"), json.JSONDecoder()
    at = _skip(text, 0)
    try:
        while at < len(text):
            document, at = decoder.raw_decode(text, at)
            at = _skip(text, at)
            yield from _of_document(document)
    except ChakraError:
        raise
    except json.JSONDecodeError as error:
        raise ChakraError(f"it is not JSON: {error}") from None
    except RecursionError:
        raise ChakraError("its JSON is nested too deeply") from None
    except ValueError:
        raise ChakraError("its JSON has a number of too many digits") from None


def _skip(text: str, at: int) -> int:
    """The index of the next character that is not white space."""
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _of_document(document: Any) -> Iterator[Node]:
    """The nodes of one JSON document: a graph, or one node."""
    if not isinstance(document, dict):
        raise ChakraError("it holds a value that is not an object")
    if "nodes" in document:
        raise ChakraError(
            "it is an execution trace of PyTorch; convert it by chakra_trace_link and "
            "chakra_converter"
        )
    graph = document.get("workload_graph")
    if not isinstance(graph, list):
        graph = [document]
    for node in graph:
        if not isinstance(node, dict):
            raise ChakraError("a node is not an object")
        kind = node.get("NodeType", node.get("type"))
        kind = TYPES.get(kind) if isinstance(kind, str) else kind
        if kind in (SEND, RECV, COLLECTIVE):
            name = node.get("Name", node.get("name", ""))
            number = _integer(node.get("Id", node.get("id", 0)))
            yield Node(number or 0, str(name), kind, _attributes(node))


def _attributes(node: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a node in JSON, which are fields of its own or in ``attr``."""
    found = {name: node[name] for name in WANTED if name in node}
    listed = node.get("attr", [])
    for each in listed if isinstance(listed, list) else []:
        if isinstance(each, dict) and each.get("name") in WANTED:
            values = [each[name] for name in (*NUMBERS, "stringVal") if name in each]
            found[each["name"]] = values[0] if values else None
    for name in ("comm_type", "comm_size"):
        if name in found:
            found[name] = _integer(found[name])
    return found


def _integer(value: Any) -> int | None:
    """An integer, which JSON may give as a text."""
    if isinstance(value, str) and len(value) <= 20 and value.lstrip("-").isdecimal():
        return int(value)
    return value if type(value) is int else None
