"""The page docs/ratios.md: how far from the bound each algorithm is, on 12 machines."""

from collections.abc import Iterator
from pathlib import Path

from collalgo import Topology, select
from collalgo.base import output_files
from collalgo.base.units import human
from collalgo.selection.on_topology import TopologyPricer
from docs.pages import PAGE

HEAD = """# How far from the bound

Made by `make docs` from the code. Each cell is the predicted time of an algorithm in
its best variant and order of ranks, in rounds, over the lower bound of the collective:
the greater of what the bytes need to cross the narrowest cut and of what a word needs
to reach every rank. The bound of an allgather by bytes is exact, that of an allreduce
need not be attainable; links of all kinds count, NVLink and PCIe at once.
"""

MACHINES = {
    "dgx1v": {},
    "dgx_a100": {},
    "dgx_h100": {},
    "mi250x": {},
    "mi300x": {},
    "server8": {},
    "dgx1v, 2 hosts, 1 NIC": {"hosts": 2, "nics": 1},
    "dgx1v, 4 hosts, 4 NICs": {"hosts": 4, "nics": 4},
    "dgx_a100, 4 hosts": {"hosts": 4},
    "torus 4x4": {"dims": (4, 4), "latency": 1e-6},
    "mesh 4x4": {"dims": (4, 4), "latency": 1e-6},
    "fat tree": {"k": 4, "latency": 1e-6},
}

SIZES = (1 << 10, 1 << 20, 1 << 30)


def _name(machine: str) -> str:
    """The preset of a machine."""
    return machine.partition(",")[0].replace(" 4x4", "").replace(" ", "_")


def page() -> str:
    """The page."""
    prospects = [
        TopologyPricer(Topology.load(_name(name), **parameters))
        for name, parameters in MACHINES.items()
    ]
    sections = [HEAD]
    for collective in ("allreduce", "allgather"):
        for nbytes in SIZES:
            sections.append(f"## {collective} of {human(nbytes)}\n")
            sections += _table(collective, nbytes, prospects)
    return "\n".join(sections)


def _table(
    collective: str, nbytes: int, prospects: list[TopologyPricer]
) -> Iterator[str]:
    best: dict[str, list[float | None]] = {}
    for i, prospect in enumerate(prospects):
        chosen = select(collective, nbytes, topology=prospect)
        least = chosen.bound_seconds or 0.0
        for candidate in chosen.able:
            row = best.setdefault(candidate.row.base_name, [None] * len(prospects))
            ratio = candidate.seconds / least
            row[i] = min(row[i] or ratio, ratio)
    yield f"| algorithm | {' | '.join(MACHINES)} |"
    yield "|---" * (1 + len(MACHINES)) + "|"
    winners = [min(r[i] for r in best.values() if r[i]) for i in range(len(prospects))]
    for name, row in best.items():
        cells = [
            ""
            if ratio is None
            else f"**{ratio:.2f}**"
            if ratio <= winner * (1 + 1e-9)
            else f"{ratio:.2f}"
            for ratio, winner in zip(row, winners, strict=True)
        ]
        yield f"| {name} | {' | '.join(cells)} |"
    yield ""


def write() -> None:
    """Write the page."""
    output_files.write(Path(__file__).with_name("ratios.md"), page(), PAGE)
