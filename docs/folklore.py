"""The page docs/folklore.md: the rules of thumb against the prices."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from collalgo import Selection, Topology, select
from collalgo.algorithms.catalogue import find
from collalgo.base import output_files, plotting
from collalgo.base.plotting import new_figure
from collalgo.base.units import human, human_time
from collalgo.cost.messages import Messages, all_messages
from collalgo.cost.placement import Placement
from collalgo.cost.rounds import Line
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.errors import AlgorithmNotApplicable
from collalgo.selection.on_topology import TopologyPricer
from collalgo.selection.overrides import PEERS
from docs.pages import PAGE

#: The first cells of rows, with the choice and where it is made.
Cases = Sequence[tuple[list[str], Selection, TopologyPricer]]

PICTURES = Path(__file__).with_name("pictures")

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

#: The server of the rules: eight V100 with NVLinks, and up to two NICs for each switch.
SERVER = "dgx1v_8nics"

#: The sizes of the tables.
SIZES = (KIB, MIB, 256 * MIB)

#: The algorithms of the rules.
FOLK = ("ring", "ring_2d", "hierarchical", "torus_2d", "mesh_2d", "multi_ring")

HEAD = """# The rules of thumb against the prices

Made by `make docs` from the code; a test compares it. Everything here is computed: the
algorithms of the table are priced in rounds on servers of eight V100 (NVLink of 25 GB/s
in a hybrid cube mesh, PCIe of 15.75 GB/s with two NICs of 12.5 GB/s for each switch),
joined by a CLOS that does not block. `collalgo select allreduce --topology dgx1v_8nics
--hosts 4 --nics 2 --peers` prints such tables for any machine.

The usual rules: *with one NIC a 2D or hierarchical ring, with 2, 4 or 8
NICs a 2D torus, inside a host a ring, for small messages at scale halving-doubling or
trees.*
"""

VERDICT = """
**Small messages: neither ring nor torus, as the rules say.** Recursive doubling and its
variants of larger radix win everywhere, because only the number of steps counts.
Halving-doubling takes twice as many steps and wins nothing below some ten KiB; a double
tree takes a step up and one down for each level, and further steps for its segments.
Trees suit machines whose ranks cannot send and receive at the same time, or whose
switches reduce.

**One NIC: the levels, yes; the 2D ring, no.** A host must send its part over the NIC
once, after it has been summed. The hierarchy, the torus and BCube all do that: where
eight columns share the NIC, each carries an eighth. The 2D ring moves no less over the
network, but first sums everything at one GPU by a tree, several times over the same
NVLinks: this makes it about twice as slow, while no NIC is idle. With many hosts
and long messages even the flat ring comes close: it enters and leaves each host once,
so it uses the NIC as well as they do, and its NVLinks at the same time.

**2, 4 or 8 NICs: the torus, or rather BCube.** Its columns use all NICs at once,
whereas a flat ring uses one. With direct exchanges (BCube) it takes fewer steps for the
same bytes. Both use NVLinks and NICs in turn, so for long messages several rings, each
entering the hosts by another NIC, beat them, as they use both at once; NCCL does the
same, and its own model finds the ring at these sizes. But direct exchanges in four to
sixteen segments, some of which cross the network while others move inside the hosts,
use both at once, too, and beat the rings.

**Inside a host: several rings, not one.** A single ring uses two of the six NVLinks of
each GPU. Rings along link-disjoint cycles use all of them: they differ from the bound
only by the bandwidth that PCIe could add.

**2D mesh: never.** It sums everything along both dimensions, so that all bytes cross
the network for every GPU of a host.
"""


def page() -> str:
    """The page."""
    cases = list(_cases())
    sections = [HEAD, "## By NICs and hosts\n", *_by_nics(cases), VERDICT]
    sections += ["## The choices of the peers and their cost\n", *_peers(cases)]
    sections += ["## Inside one host\n", *_inside()]
    sections += ["## A ring of 1000 ranks\n", *_thousand()]
    sections += ["## Bytes between hosts\n", *_between_hosts()]
    sections += ["## Idle GPUs in a 2D ring\n", *_idle()]
    return "\n".join(sections)


def _times(chosen: Selection, name: str) -> str:
    """The time of an algorithm's best variant over that of the choice."""
    seconds = [c.seconds for c in chosen.able if c.row.base_name == name]
    return f"{min(seconds) / chosen.seconds:.2f}"


def _cases() -> Iterator[tuple[list[str], Selection, TopologyPricer]]:
    """The first cells of a row for each number of NICs and hosts and each size."""
    for nics in (1, 2, 4, 8):
        for hosts in (2, 4, 16):
            pricer = TopologyPricer(Topology.load(SERVER, hosts=hosts, nics=nics))
            for nbytes in SIZES:
                chosen = select("allreduce", nbytes, topology=pricer)
                cells = [str(nics), str(hosts), human(nbytes), _choice(chosen)]
                yield cells, chosen, pricer


def _by_nics(cases: Cases) -> Iterator[str]:
    head = " | ".join(FOLK)
    yield f"| NICs | hosts | size | choice | time | bound | ratio | {head} |"
    yield "|---" * (7 + len(FOLK)) + "|"
    for first, chosen, _ in cases:
        least = human_time(chosen.bound_seconds or 0.0)
        cells = [*first, human_time(chosen.seconds), least, f"{chosen.ratio:.2f}"]
        cells += [_times(chosen, name) for name in FOLK]
        yield f"| {' | '.join(cells)} |"
    yield "\nThe columns on the right give the times of others over that of the choice."


def _choice(chosen: Selection) -> str:
    """The choice without the order of its ranks."""
    return chosen.choice.words.partition(", ranks")[0]


def _peers(cases: Cases) -> Iterator[str]:
    yield f"| NICs | hosts | size | choice | {' | '.join(PEERS)} |"
    yield "|---" * (4 + len(PEERS)) + "|"
    for first, chosen, pricer in cases:
        cells = [*first, *(_lost(chosen, name, pricer) for name in PEERS)]
        yield f"| {' | '.join(cells)} |"
    yield (
        "\nEach cell names the algorithm of the peer, and its time over that of the "
        "choice (lower is better). NCCL's model decides between ring and tree; the "
        "cheapest ring or tree of the table stands for it."
    )


def _lost(chosen: Selection, name: str, pricer: TopologyPricer) -> str:
    try:
        other = select("allreduce", chosen.nbytes, topology=pricer, policy=name)
    except AlgorithmNotApplicable:
        return "-"
    return f"{other.row.base_name} {other.seconds / chosen.seconds:.2f}"


def _inside() -> Iterator[str]:
    pricer = TopologyPricer(Topology.load("dgx1v"))
    yield "| size | choice | time | ratio | ring | ratio of the ring |"
    yield "|---|---|---|---|---|---|"
    for nbytes in (KIB, 64 * KIB, MIB, 64 * MIB, GIB):
        chosen = select("allreduce", nbytes, topology=pricer)
        ring = min(c.seconds for c in chosen.able if c.algorithm == "ring")
        least = chosen.bound_seconds or 0.0
        cells = [human(nbytes), _choice(chosen), human_time(chosen.seconds)]
        cells += [f"{chosen.ratio:.2f}", human_time(ring), f"{ring / least:.2f}"]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _thousand_lines() -> dict[str, Line]:
    """The prices of a ring, a torus and BCube of 1000 ranks."""
    placement = Placement(UniformCluster.load(SERVER, hosts=125, nics=8))
    lines = {}
    for name in ("ring", "torus_2d(dims=(8, 125))", "bcube(dims=(8, 125))"):
        row = find("allreduce", name, placement.size)
        dims = dict(row.parameters).get("dims", ())
        lines[name] = placement.rounds(placement.fold(row.schedule, dims)).line
    return lines


def _thousand() -> Iterator[str]:
    """A flat ring on 125 servers, beside a torus of the same ranks."""
    lines = _thousand_lines()
    ring, torus, bcube = lines.values()
    half = ring.latency / ring.per_byte
    yield (
        f"On 125 servers with 8 NICs a flat ring of 1000 ranks takes 1998 steps, "
        f"{human_time(ring.latency)} before any byte has moved: all but the bytes of "
        f"{human(half)}, so below that size it is bound by latency. The torus takes "
        f"{human_time(torus.latency)}, with direct exchanges "
        f"{human_time(bcube.latency)}.\n"
    )
    yield "| size | ring | of it latency | torus_2d | bcube |"
    yield "|---|---|---|---|---|"
    for nbytes in (KIB, MIB, 64 * MIB, GIB):
        times = [line.seconds(nbytes) for line in lines.values()]
        part = ring.latency / times[0]
        cells = [human(nbytes), human_time(times[0]), f"{part:.0%}"]
        yield f"| {' | '.join([*cells, *map(human_time, times[1:])])} |"
    yield "\n![A ring of 1000 ranks](pictures/ring_of_1000.png)\n"


def draw_thousand(path: Path) -> None:
    """Draw the ring of a thousand ranks, the torus and their latencies alone."""
    sizes = 2.0 ** np.arange(3, 33)
    figure = new_figure(8, 5)
    axes = figure.subplots()
    for name, line in _thousand_lines().items():
        axes.loglog(sizes, line.seconds(sizes) * 1e6, label=name)
        axes.axhline(line.latency * 1e6, color="gray", linewidth=0.5, linestyle="--")
    axes.set_xlabel("bytes")
    axes.set_ylabel("microseconds; dashed: latency alone")
    axes.set_title("allreduce of 1000 ranks on 125 servers of 8 GPUs", loc="left")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    plotting.save(figure, path, force=True)


def leaving(messages: Messages, each: int) -> float:
    """The number of buffers that the busiest host sends to others."""
    sends = messages.sends
    away = sends.where(sends.rank // each != sends.peer // each)
    return float(np.bincount(away.rank // each, away.share).max())


def _between_hosts() -> Iterator[str]:
    yield "Buffers that a host of 8 GPUs sends to others in an allreduce:\n"
    yield "| hosts | torus_2d | mesh_2d | ring_2d | ring |"
    yield "|---|---|---|---|---|"
    for hosts in (2, 4, 16):
        cells = [str(hosts)]
        for name in ("torus_2d", "mesh_2d", "ring_2d"):
            row = find("allreduce", f"{name}(dims=(8, {hosts}))", 8 * hosts)
            cells.append(f"{leaving(all_messages(row.schedule, 8 * hosts), 8):.2f}")
        row = find("allreduce", "ring", 8 * hosts)
        cells.append(f"{leaving(all_messages(row.schedule, 8 * hosts), 8):.2f}")
        yield f"| {' | '.join(cells)} |"
    yield (
        "\nThe mesh moves eight times as much between hosts as the torus: each of the "
        "8 GPUs of a host sums its whole buffer across hosts.\n"
    )


def _idle() -> Iterator[str]:
    hosts = 4
    row = find("allreduce", f"ring_2d(dims=(8, {hosts}))", 8 * hosts)
    messages = all_messages(row.schedule, 8 * hosts)
    sends = messages.sends
    away = sends.where(sends.rank // 8 != sends.peer // 8)
    senders = len(np.unique(away.rank[away.rank < 8]))
    placement = Placement(Topology.load(SERVER, hosts=hosts, nics=1))
    found = placement.rounds(placement.fold(row.schedule, (8, hosts)))
    steps = np.unique(away.step)
    part = found.per_byte[steps].sum() / found.per_byte.sum()
    yield (
        f"In the ring of the hosts {senders} of the 8 GPUs of each host sends and "
        f"receives, {8 - senders} are idle, as the claim says. But with one NIC that "
        f"phase takes {part:.0%} of the time of long messages; the rest goes into the "
        "trees inside the hosts, which the torus does not need.\n"
    )


def write() -> None:
    """Write the page and its picture."""
    output_files.write(Path(__file__).with_name("folklore.md"), page(), PAGE)
    draw_thousand(PICTURES / "ring_of_1000.png")
