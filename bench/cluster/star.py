"""Compare collectives between hosts on one switch, at several link rates."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from collalgo.bench.cluster.environments import races_on
from collalgo.bench.cluster.kernel import down, namespaces, up
from collalgo.bench.cluster.layout import Layout, layout_of_file
from collalgo.bench.cluster.leftovers import guard

from collalgo.base.units import human, human_time

#: The rate in Gbit/s by which links without a limit are priced: two cores that emulate
#: hosts move about as much.
UNLIMITED = 40

#: The first lines of the table of all rates, and what its cells mean.
HEADER = "| links | collective | size | time |\n|---|---|---|---|"
LEGEND = """
time of collalgo, and that of each peer divided by it
(above 1, collalgo is faster)"""


class Times(NamedTuple):
    """The median seconds of a call at a rate, of collalgo and of each peer."""

    collective: str
    nbytes: int
    ours: float
    peers: dict[str, float]


def description(hosts: int, ranks: int, gigabits: float) -> str:
    """The topology file of hosts on one switch, each with a NIC of this rate."""
    each = f"h[0-{hosts - 1}]"
    devices, links = [], []
    for host in (f"h{number}" for number in range(hosts)):
        for part, kind in (("cpu0", "cpu"), (f"core[0-{ranks - 1}]", "core")):
            devices.append(f'{{id: "{host}/{part}", kind: {kind}, host: {host}}}')
        devices.append(f'{{id: "{host}/nic0", kind: nic, host: {host}}}')
        cores = f'"{host}/core[0-{ranks - 1}]", {host}/cpu0'
        links.append(f"{{ends: [{cores}], kind: smp, bandwidth: memory}}")
        links.append(f'{{ends: ["{host}/nic0", {host}/cpu0], kind: pcie}}')
    devices.append("{id: switch, kind: switch}")
    links.append(f'{{ends: ["{each}/nic0", switch], kind: network, bandwidth: nic}}')
    return "\n".join(
        (
            "collalgo: topology/1",
            f"name: star of {hosts}",
            f'about: "{hosts} hosts of {ranks} ranks on one switch"',
            "source: made for a race",
            f"parameters: {{nic: {gigabits / 8}, memory: 8.0}}",
            *("devices:", *(f"  - {line}" for line in devices)),
            *("links:", *(f"  - {line}" for line in links), ""),
        )
    )


@contextmanager
def star(
    folder: Path, hosts: int, ranks: int, gigabits: float
) -> Iterator[tuple[Layout, Path]]:
    """A cluster that is up meanwhile, and its file; unlimited at a rate of inf."""
    file = folder / f"{gigabits}.yaml"
    limited = math.isfinite(gigabits)
    file.write_text(description(hosts, ranks, gigabits if limited else UNLIMITED))
    layout = layout_of_file(file)
    if not limited:
        for cable in layout.cables:
            cable.bytes_per_second = math.inf
    with guard(folder, *namespaces(layout)):
        up(layout)
        try:
            yield layout, file
        finally:
            down(layout)


def race_at(
    hosts: int,
    ranks: int,
    gigabits: float,
    collectives: Sequence[str],
    sizes: Sequence[int],
    environments: Sequence[Path],
    engine: str,
) -> list[Times]:
    """The times at one rate, alternating with the MPI of each environment.

    ``engine`` is that of collalgo between the hosts.

    Raises
    ------
    ClusterError
        If a race fails.
    """
    options = ["--most", "1", "--rounds", "0", "-s", ",".join(map(str, sizes))]
    options += [word for each in collectives for word in ("-c", each)]
    with (
        TemporaryDirectory(prefix="collalgo-") as name,
        star(Path(name), hosts, ranks, gigabits) as (layout, file),
    ):
        races = list(races_on(layout, file, environments, options, (), engine))
    return list(times_in([row for race in races for row in race["entries"]]))


def times_in(rows: Sequence[dict[str, Any]]) -> Iterator[Times]:
    """The times of each cell in the entries of races.

    Each race measures the peers of its environment beside collalgo, whose time is that
    of the first. A peer's time is scaled by that of collalgo in its own race.
    """
    cells = dict.fromkeys((row["collective"], row["nbytes"]) for row in rows)
    for cell in cells:
        mine = [row for row in rows if (row["collective"], row["nbytes"]) == cell]
        first = beside = 0.0
        peers: dict[str, float] = {}
        for row in mine:
            seconds = median(row["seconds"])
            if row["chosen"]:
                beside = seconds
                first = first or seconds
            else:
                name = row["algorithm"].partition(" of ")[0]  # gloo of torch
                peers.setdefault(name, seconds / beside * first)
        yield Times(*cell, first, peers)


def table_rows(gigabits: float, found: Sequence[Times]) -> Iterator[str]:
    """The rows of a Markdown table with the times at one rate."""
    rate = f"{gigabits:g} Gbit/s" if gigabits < math.inf else "unlimited"
    for one in found:
        time = f"{human_time(one.ours)} ({', '.join(_ratios(one))})"
        yield f"| {rate} | {one.collective} | {human(one.nbytes)} | {time} |"


def kept_rows(gigabits: float, found: Sequence[Times]) -> Iterator[dict[str, Any]]:
    """The times at one rate as objects of JSON; the rate is null if unlimited."""
    rate = gigabits if gigabits < math.inf else None
    for one in found:
        yield {"rate": rate, **one._asdict()}


def _ratios(one: Times) -> Iterator[str]:
    for name, seconds in one.peers.items():
        yield f"{name} {seconds / one.ours:.2f}"
