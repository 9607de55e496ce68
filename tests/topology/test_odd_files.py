"""Files of odd shapes are read rightly, with warnings of what is taken, or refused."""

import json
from itertools import combinations, product

import pytest

from collalgo.cost.bounds import bound
from collalgo.cost.placement import Placement
from collalgo.topology.domains import fast_domains
from collalgo.topology.model import LinkKind
from collalgo.topology.orders import ring_order
from collalgo.topology.paths import best_path
from collalgo.topology.readers import parse
from tests.support.smi_matrices import about


def nccl(*devices, hosts=1):
    """A system of NCCL with PCIe devices on each host."""
    cpus = [
        f'<cpu host_hash="0x{h}" numaid="0">{"".join(devices)}</cpu>'
        for h in range(hosts)
    ]
    return f'<system version="1">{"".join(cpus)}</system>'


def pci(busid, inner, width=16):
    link = f'link_speed="16.0 GT/s PCIe" link_width="{width}"'
    return f'<pci busid="{busid}" class="0x0" {link}>{inner}</pci>'


HIDDEN = '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>'


@pytest.mark.parametrize("hosts", [1, 2, 3, 8])
@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_hidden_nvswitches_of_all_hosts_of_a_dump_are_one_domain(hosts, gpus):
    cards = [
        pci(f"0000:0{i}:00.0", f'<gpu dev="{i}" sm="100" rank="{i}">{HIDDEN}</gpu>')
        for i in range(gpus)
    ]
    machine = parse(nccl(*cards, hosts=hosts), "x")
    assert [len(domain) for domain in fast_domains(machine)] == [hosts * gpus]
    last = f"host{hosts - 1}/gpu{gpus - 1}"
    if last != "host0/gpu0":
        path = best_path(machine, "host0/gpu0", last)
        assert (path.type.name, path.bandwidth) == ("NVL", 900.0)
    assert bool(about(machine, "one NVLink domain")) == (hosts > 1)


def bare_gpus(gpus, linked=0, hosts=1):
    cards = [
        pci(
            f"0000:{i:02x}:00.0",
            f'<gpu dev="{i}" sm="90" rank="{i}">{HIDDEN if i < linked else ""}</gpu>',
        )
        for i in range(gpus)
    ]
    return parse(nccl(*cards, hosts=hosts), "x")


@pytest.mark.parametrize("hosts", [1, 2])
@pytest.mark.parametrize(("gpus", "linked"), [(1, 0), (2, 0), (8, 0), (8, 8), (8, 7)])
def test_gpus_of_nccl_without_links_of_their_own_are_a_warning(gpus, linked, hosts):
    found = about(bare_gpus(gpus, linked, hosts), "no NVLink or xGMI")
    assert len(found) == (hosts if linked < gpus > 1 else 0)
    for host, text in enumerate(found):
        named = f"the {gpus} GPUs of host{host} have" if not linked else "gpu7 has"
        assert named in text
        assert "NCCL_TOPO_DUMP_FILE" in text


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_gpus_of_one_pcie_device_are_ranks_that_share_its_slot(parts):
    inner = [
        f'<gpu dev="0" sm="107" mlopart="{i}" rank="{i}">{HIDDEN}</gpu>'
        for i in range(parts)
    ]
    machine = parse(nccl(pci("0002:81:00.0", "".join(inner))), "x")
    gpus = machine.devices("gpu")
    assert [gpu.attributes["rank"] for gpu in gpus] == list(range(parts))
    fast = [link for link in machine.links if link.kind is LinkKind.NVLINK]
    assert [link.count for link in fast] == [18] * parts
    (slot,) = machine.links_of("host0/cpu0")
    assert slot.bandwidth == pytest.approx(31.5, rel=1e-3)


def cards_of(ports, as_functions):
    """The PCIe functions of a card: one for each port, or one for all of them."""
    nets = [
        f'<net name="mlx5_{i}" dev="{i}" speed="200000" port="{i + 1}"/>'
        for i in range(ports)
    ]
    if not as_functions:
        nets = ["".join(nets)]
    return [pci(f"0000:61:00.{i}", f"<nic>{net}</nic>") for i, net in enumerate(nets)]


@pytest.mark.parametrize("ports", [2, 4])
@pytest.mark.parametrize("as_functions", [True, False])
def test_ports_of_one_card_share_its_slot(ports, as_functions):
    cards = cards_of(ports, as_functions)
    gpu = pci("0000:62:00.0", '<gpu dev="0" sm="80" rank="0"/>')
    machine = parse(nccl(pci("0000:60:00.0", gpu + "".join(cards))), "x")
    nics = machine.devices("nic")
    assert len(nics) == ports
    above = {link.other(nic.id) for nic in nics for link in machine.links_of(nic.id)}
    (card,) = above
    assert machine.device(card).kind == "card"
    slots = [
        link for link in machine.links_of(card) if link.other(card) == "host0/pci0"
    ]
    assert [link.bandwidth for link in slots] == pytest.approx([31.5], rel=1e-3)
    assert best_path(machine, "host0/gpu0", "host0/nic1").type.name == "PIX"


KINDS = ("Ring", "Switch", "FullyConnected")


@pytest.mark.parametrize("counts", [(8, 4), (2, 2), (1, 3), (3, 1), (5, 3)])
@pytest.mark.parametrize("kinds", list(product(KINDS, repeat=2)))
def test_npus_reach_each_other_dimension_by_dimension(kinds, counts):
    text = (
        f"topology: [{', '.join(kinds)}]\nnpus_count: {list(counts)}\n"
        "bandwidth: [450.0, 50.0]\nlatency: [500, 2000]"
    )
    machine = parse(text, "x")
    assert machine.hosts == [f"npu{i}" for i in range(counts[0] * counts[1])]
    for i in range(1, counts[0] * counts[1]):
        speed = 50.0 if i // counts[0] else 450.0
        assert best_path(machine, "npu0", f"npu{i}").bandwidth == speed
    placed = Placement(machine)
    routes = [placed.routes.route("npu0", other) for other in placed.devices[1:]]
    assert all(route.directed_links for route in routes)
    assert sorted(ring_order(machine)) == sorted(machine.hosts)


def platform(routes, *hosts, **links):
    """A platform of SimGrid; each route is its hosts and links in a word."""
    found = [f"<host id='{host}' speed='1Gf'/>" for host in hosts]
    found += [
        f"<link id='{link}' bandwidth='{speed}MBps' latency='1us'/>"
        for link, speed in links.items()
    ]
    for source, *inner, target in map(str.split, routes):
        parts = "".join(f"<link_ctn id='{link}'/>" for link in inner)
        found.append(f"<route src='{source}' dst='{target}'>{parts}</route>")
    inside = "".join(found)
    return f"<platform version='4.1'><zone id='z'>{inside}</zone></platform>"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_a_link_in_the_middle_of_routes_is_one_cable(size):
    left, right = ([f"{side}{i}" for i in range(size)] for side in "ab")
    routes = [
        f"{a} l{a} {'middle ' * (a[0] != b[0])}l{b} {b}"
        for a, b in combinations([*left, *right], 2)
    ]
    speeds = {f"l{host}": 1000 for host in (*left, *right)} | {"middle": 100}
    machine = parse(platform(routes, *left, *right, **speeds), "x")
    assert len(machine.links) == 2 * size + 1
    (middle,) = [link for link in machine.links if link.bandwidth == 0.1]
    across = [best_path(machine, a, b) for a, b in product(left, right)]
    assert all(middle in path.links for path in across)
    inside = [best_path(machine, *pair) for pair in combinations(left, 2)]
    assert all(path.bandwidth == 1.0 for path in inside)


def test_a_loopback_is_no_network():
    text = platform(["a lo a", "b lo b", "a wire b"], "a", "b", lo=498, wire=10)
    machine = parse(text, "x")
    assert [link.bandwidth for link in machine.links] == [0.01]
    assert about(machine, "from a host to itself")


def test_a_medium_of_all_pairs_is_a_switch():
    text = platform(["a bus b", "a bus c", "b bus c"], "a", "b", "c", bus=10)
    machine = parse(text, "x")
    assert [link.bandwidth for link in machine.links] == [0.01] * 3
    assert about(machine, "bus", "in several directions")


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_routes_do_not_share_a_fat_pipe(size):
    left, right = ([f"{side}{i}" for i in range(size)] for side in "ab")
    routes = [f"{a} l{a} middle l{b} {b}" for a, b in product(left, right)]
    routes += [f"{a} l{a} l{b} {b}" for side in (left, right)
               for a, b in combinations(side, 2)]  # fmt: skip
    speeds = {f"l{host}": 100 for host in (*left, *right)} | {"middle": 100}
    text = platform(routes, *left, *right, **speeds)
    text = text.replace("id='middle'", "id='middle' sharing_policy='FATPIPE'")
    machine = parse(text, "x")
    alone = 2 * size - 1  # the others, to each of whom a host sends 1/n of 1 GB
    found = bound("alltoall", machine).seconds(1e9)
    assert found == pytest.approx(alone / (2 * size) * 10, rel=1e-3)
    assert bool(about(machine, "middle", "FATPIPE")) == (size > 1)


@pytest.mark.parametrize("levels", [1, 2, 3, 5])
def test_a_host_listed_at_several_levels_has_one_link(levels):
    lines = [
        f"SwitchName=s0-{i} Level=0 Nodes=n[{4 * i}-{4 * i + 3}]"
        for i in range(2**levels)
    ]
    for level in range(1, levels + 1):
        for i in range(2 ** (levels - level)):
            nodes = f"n[{i * 2**level * 4}-{(i + 1) * 2**level * 4 - 1}]"
            below = f"s{level - 1}-[{2 * i}-{2 * i + 1}]"
            lines.append(f"SwitchName=s{level}-{i} Nodes={nodes} Switches={below}")
    for text in ("\n".join(lines), "\n".join(reversed(lines))):
        cluster = parse(text, "x")
        hosts = cluster.devices("host")
        assert len(hosts) == 4 * 2**levels
        assert {len(list(cluster.links_of(host.id))) for host in hosts} == {1}
        assert not cluster.warnings


def hwloc(pci_type, *names):
    inner = "".join(f'<object type="OSDev" name="{name}"/>' for name in names)
    return (
        '<topology version="2.0"><object type="Machine">'
        '<object type="NUMANode" os_index="0" cpuset="0x1"/>'
        '<object type="Bridge" bridge_type="0-1">'
        f'<object type="PCIDev" pci_type="{pci_type}">{inner}</object>'
        "</object></object></topology>"
    )


@pytest.mark.parametrize(
    ("pci_type", "names", "gpus"),
    [
        ("0300 [1002:66a1] [1002:0834] 00", ["card1", "renderD128"], 1),
        ("0300 [1002:66a1] [1002:0834] 00", ["card1"], 1),
        ("0300 [1002:66a1] [1002:0834] 00", ["renderD128"], 1),
        ("0380 [1002:66a1] [1002:0834] 00", [], 1),
        ("0300 [1002:515e] [1002:0834] 00", ["card0"], 0),
        ("0300 [1a03:2000] [1a03:2000] 30", ["card0"], 0),
        ("0300 [8086:3e96] [8086:2212] 00", ["card0", "renderD128"], 0),
    ],
)
def test_a_display_controller_is_a_gpu_by_its_vendor_and_its_drivers(
    pci_type, names, gpus
):
    assert len(parse(hwloc(pci_type, *names), "x").devices("gpu")) == gpus


def test_words_of_a_slurm_file_that_are_no_pairs_are_a_warning():
    text = "SwitchName=s0 \\\n Nodes=a,b # c\n\nSwitchName=s1 Nodes=c d e\n"
    assert parse(text, "x").warnings == ["line 4: 'd' is not NAME=VALUE and omitted"]


@pytest.mark.parametrize(
    ("levels", "labels", "warning"),
    [
        (["block"], {"block": "b"}, []),
        (["block", "rack"], {"rack": "r"}, ["n has no label block"]),
        (["block", "rack"], {}, ["n has no label block, rack"]),
        ([], {}, ["the levels have none above the hosts, which are not linked"]),
    ],
)
def test_the_labels_that_a_node_lacks_are_a_warning(levels, labels, warning):
    host = "kubernetes.io/hostname"
    levels = [{"nodeLabel": level} for level in [*levels, host]]
    node = {"name": "n", "labels": {**labels, host: "n"}}
    objects = [
        {"apiVersion": "kueue", "kind": "Topology", "spec": {"levels": levels}},
        {"apiVersion": "v1", "kind": "Node", "metadata": node},
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    assert parse(text, "x").warnings == warning
