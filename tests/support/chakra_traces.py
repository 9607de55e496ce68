"""Chakra execution traces in each of their forms."""

import json


def varint(value):
    """An unsigned integer of Protocol Buffers."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def field(number, value):
    """A field of a message: an integer, or bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def attribute(name, value):
    return field(1, name) + field(29 if isinstance(value, str) else 9, value)


def message(number, name, kind, **attributes):
    """A node of a trace, with fields that the reader skips."""
    found = field(1, number) + field(2, name) + field(3, kind) + field(4, 7)
    found += varint(6 << 3 | 1) + bytes(8)  # a field of a fixed length
    for each in attributes.items():
        found += field(10, attribute(*each))
    return found


#: Nodes: a number, a name, a type, and the attributes.
NODES = [
    (1, "add", 4, {}),
    (2, "nccl:all_reduce", 7, {"comm_type": 0, "comm_size": 1 << 20, "pg_name": "tp"}),
    (3, "nccl:all_gather", 7, {"comm_type": 2, "comm_size": 4096}),
    (4, "nccl:all_reduce", 7, {"comm_type": 0, "comm_size": 1 << 20, "pg_name": "tp"}),
    (5, "c10d::allreduce_", 7, {"is_cpu_op": 1}),
    (6, "nccl:send", 5, {"comm_size": 8, "comm_dst": 1}),
    (7, "nccl:barrier", 7, {"comm_type": 9}),
]


def delimited(data):
    return varint(len(data)) + data


def as_messages(nodes=NODES):
    """The form of Protocol Buffers."""
    found = [message(*node[:3], **node[3]) for node in nodes]
    return b"".join(map(delimited, [field(1, "0.0.4"), *found]))


def as_json(nodes=NODES):
    """The form of the jsonizer: one document behind the other."""
    types = {4: "COMP_NODE", 5: "COMM_SEND_NODE", 7: "COMM_COLL_NODE"}
    found = [{"version": "0.0.4"}]
    for number, name, kind, attributes in nodes:
        listed = [
            {"name": n, "stringVal" if isinstance(v, str) else "int64Val": str(v)}
            for n, v in attributes.items()
        ]
        node = {"id": str(number), "name": name, "type": types[kind], "attr": listed}
        found.append(node)
    return "".join(json.dumps(each, indent=2) for each in found).encode()


def as_graph(nodes=NODES):
    """The form of the feeder: one document."""
    graph = [
        {"Id": number, "Name": name, "NodeType": kind, **attributes}
        for number, name, kind, attributes in nodes
    ]
    return json.dumps({"workload_graph": graph}).encode()


FORMS = {"messages": as_messages, "json": as_json, "graph": as_graph}
