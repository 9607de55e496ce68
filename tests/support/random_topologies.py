"""Random machines for properties."""

from itertools import pairwise

from hypothesis import strategies as st

from collalgo import Topology
from collalgo.topology.model import Kind, LinkKind

BANDWIDTHS = st.one_of(st.none(), st.floats(0.125, 900.0, allow_nan=False))


def _add_devices(draw, topology, host, above):
    """Add GPUs with NVLinks and NICs below some devices; the NICs."""
    gpus = _add(topology, Kind.GPU, host, draw(st.integers(1, 5)))
    nics = _add(topology, Kind.NIC, host, draw(st.integers(0, 3)))
    for device in (*gpus, *nics):
        topology.link(
            device, draw(st.sampled_from(above)), LinkKind.PCIE, draw(BANDWIDTHS)
        )
    for i, a in enumerate(gpus):
        for b in gpus[:i]:
            count = draw(st.integers(0, 2))
            if count:
                topology.link(b, a, LinkKind.NVLINK, 25.0 * count, count=count)
    return nics


@st.composite
def machines(draw, hosts=2):
    """Machines with a PCIe tree, NVLinks and a network, of random sizes and speeds."""
    topology = Topology("random", "a test")
    ports = []
    for h in range(draw(st.integers(1, hosts))):
        host = f"host{h}"
        cpus = _add(topology, Kind.CPU, host, draw(st.integers(1, 3)))
        for a, b in pairwise(cpus):
            topology.link(a, b, LinkKind.SMP, draw(BANDWIDTHS))
        switches = _add(topology, Kind.PCI, host, draw(st.integers(0, 3)))
        for i, switch in enumerate(switches):
            above = draw(st.sampled_from([*cpus, *switches[:i]]))
            topology.link(switch, above, LinkKind.PCIE, draw(BANDWIDTHS))
        ports += _add_devices(draw, topology, host, [*switches, *cpus])
    if len(ports) > 1:
        leaf = topology.add("leaf0", Kind.SWITCH)
        for port in ports:
            topology.link(port, leaf, LinkKind.NETWORK, draw(BANDWIDTHS))
    return topology


def _add(topology, kind, host, count):
    return [
        topology.add(f"{host}/{kind.value}{i}", kind, host=host) for i in range(count)
    ]


def renamed(topology, order, new_names):
    """The same machine with its devices added in another order under other names."""
    other = Topology("renamed", topology.source)
    devices = topology.devices()
    ids = {}
    for i in order:
        device = devices[i]
        ids[device.id] = other.add(
            new_names[i],
            device.kind,
            host=device.host and f"other-{device.host}",
            **device.attributes,
        )
    for link in topology.links:
        a, b = (ids[end] for end in link.ends)
        other.link(
            b, a, link.kind, link.bandwidth, count=link.count, latency=link.latency
        )
    return other, ids
