"""hwloc's matrices of the bandwidths between GPUs."""

from typing import Any

from collalgo.errors import TopologyError
from collalgo.topology.model import Kind, LinkKind, Topology
from collalgo.topology.values import integer
from collalgo.topology.wiring import connected

#: The kind of link by the name of the matrix, which has MB/s in each direction.
MATRICES = {
    "NVLinkBandwidth": LinkKind.NVLINK,
    "XGMIBandwidth": LinkKind.XGMI,
    "XeLinkBandwidth": LinkKind.XGMI,
}

#: MB/s of one NVLink of the second to fourth generation.
ONE_NVLINK = 25000

#: hwloc's value on the diagonal, and for devices that share all resources.
SAME_DEVICE = 1_000_000


def links_between(root: Any, by_number: dict[str, str], topology: Topology) -> None:
    """Add the links of all bandwidth matrices."""
    for element in (*root.iter("distances2"), *root.iter("distances2hetero")):
        kind = MATRICES.get(element.get("name", ""))
        if kind is not None:
            _add(element, kind, by_number, topology)
    _join_boards(topology)


def _words(element: Any, tag: str) -> list[str]:
    return [word for part in element.findall(tag) for word in (part.text or "").split()]


def _matrix(element: Any) -> tuple[list[str], list[int]]:
    """The labels of the objects, and their values by rows."""
    name, type = element.get("name"), element.get("type")
    labels = [f"{type}:{w}" if type else w for w in _words(element, "indexes")]
    values = [
        integer(word, f"{name}", 0, 10**15) for word in _words(element, "u64values")
    ]
    if len(values) != len(labels) ** 2:
        raise TopologyError(f"{name}: {len(values)} values for {len(labels)} objects")
    return labels, values


def _add(
    element: Any, kind: LinkKind, by_number: dict[str, str], topology: Topology
) -> None:
    name = element.get("name")
    labels, values = _matrix(element)
    found = [(i, by_number.get(label)) for i, label in enumerate(labels)]
    missing = [labels[i] for i, id in found if id is None]
    if missing:
        topology.warn(f"{name} has {missing[0]}, which is not one of the devices")
    rule = f"the driver's {name}"
    if kind is LinkKind.XGMI:
        rule += ", which on some machines is the same for all pairs"
    for i, a in found:
        for j, b in found[:i]:
            speed, back = values[i * len(labels) + j], values[j * len(labels) + i]
            if a and b and a != b and speed != back:
                topology.warn(
                    f"{name} of {b} - {a}: {speed} MB/s in one direction, {back} back; "
                    f"{speed} is used"
                )
            if a and b and a != b and 0 < speed < SAME_DEVICE:
                count = max(1, speed // ONE_NVLINK) if kind is LinkKind.NVLINK else 1
                topology.link(b, a, kind, speed / 1000, count=count, assumed=(rule,))


def _join_boards(topology: Topology) -> None:
    """Link the NVSwitches of several boards; the driver shows no links between them."""
    fast = [link.ends for link in topology.links if link.kind is LinkKind.NVLINK]
    switches = [device.id for device in topology.devices(Kind.NVSWITCH)]
    boards = [[id for id in switches if id in part] for part in connected((), fast)]
    boards = sorted(board for board in boards if board)
    for board in boards[1:]:
        for a, b in zip(boards[0], board, strict=False):
            rule = ("the NVSwitches of a machine are linked",)
            topology.link(a, b, LinkKind.NVLINK, assumed=rule)
