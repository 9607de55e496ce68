"""The machines whose prices are compared with the bounds, in groups."""

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from collalgo import Topology
from collalgo.errors import TopologyError
from collalgo.topology import presets
from collalgo.topology.model import Kind, LinkKind
from collalgo.topology.places import ranks_of
from collalgo.topology.wiring import is_connected

#: The numbers of hosts of each preset, and the numbers of NICs besides all.
HOSTS, NICS = (1, 2, 4), (1, 2, 4, 8)

#: The numbers of random machines and of random subsets, and the most ranks of a file.
RANDOM, SUBSETS, MOST_RANKS = 200, 60, 128

#: GB/s of the links of random machines: in a host, of a NIC, and between switches.
INSIDE, OUTSIDE = (20.0, 50.0, 300.0), (5.0, 12.5, 25.0, 37.5)


class NamedMachine(NamedTuple):
    """A machine by its name, loaded when it is needed."""

    name: str
    load: Callable[[], Topology]


def of_presets() -> Iterator[NamedMachine]:
    """Each preset with some numbers of hosts and of NICs."""
    for name in presets.machines():
        nics = len(Topology.load(name).devices(Kind.NIC))
        for hosts in HOSTS:
            yield NamedMachine(f"{name} hosts={hosts}", _loading(name, hosts=hosts))
            for fewer in NICS if hosts > 1 else ():
                if fewer < nics and nics % fewer == 0:
                    parameters = {"hosts": hosts, "nics": fewer}
                    words = [f"{key}={value}" for key, value in parameters.items()]
                    yield NamedMachine(
                        " ".join([name, *words]), _loading(name, **parameters)
                    )


def of_fabrics() -> Iterator[NamedMachine]:
    """Each fabric."""
    for name in presets.FABRICS:
        yield NamedMachine(name, _loading(name))


def _loading(name: str, **parameters: int) -> Callable[[], Topology]:
    return partial(Topology.load, name, **parameters)


def of_files(folder: Path) -> Iterator[NamedMachine]:
    """Each file below a folder that is read and has two ranks, and not too many."""
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        try:
            size = len(ranks_of(Topology.read(path)))
        except (TopologyError, ValueError):
            continue
        if 2 <= size <= MOST_RANKS:
            name = str(path.relative_to(folder))
            yield NamedMachine(name, partial(Topology.read, path))


def at_random() -> Iterator[NamedMachine]:
    """Random machines."""
    for seed in range(RANDOM):
        yield NamedMachine(f"random {seed}", partial(random_machine, seed))


def random_machine(seed: int) -> Topology:
    """Hosts of some GPUs with NICs on switches that are joined at random."""
    chance = random.Random(f"machine {seed}")
    topology = Topology(f"random {seed}", "made at random")
    count = chance.randint(1, 3)
    switches = [topology.add(f"switch{i}", Kind.SWITCH) for i in range(count)]
    for number, switch in enumerate(switches[1:], 1):
        chosen = [chance.choice(switches[:number]) for _ in range(2)]
        for other in dict.fromkeys(chosen):  # a set has an order of its own
            speed = chance.choice(OUTSIDE) * chance.randint(1, 4)
            topology.link(switch, other, LinkKind.NETWORK, speed)
    for number in range(chance.randint(3, 8)):
        _add_host(topology, f"host{number}", switches, chance)
    return topology


def _add_host(
    topology: Topology, host: str, switches: list[str], chance: random.Random
) -> None:
    """A host of one to three GPUs below a CPU, maybe joined, with one or two NICs."""
    cpu = topology.add(f"{host}/cpu0", Kind.CPU, host=host)
    gpus = [
        topology.add(f"{host}/gpu{i}", Kind.GPU, host=host)
        for i in range(chance.choice((1, 1, 2, 3)))
    ]
    fast = chance.random() < 0.6
    for i, gpu in enumerate(gpus):
        topology.link(gpu, cpu, LinkKind.PCIE, chance.choice(INSIDE))
        for other in gpus[:i] if fast else ():
            topology.link(other, gpu, LinkKind.NVLINK, chance.choice(INSIDE))
    for i in range(chance.choice((1, 2))):
        nic = topology.add(f"{host}/nic{i}", Kind.NIC, host=host)
        topology.link(nic, cpu, LinkKind.PCIE, max(INSIDE))
        speed = chance.choice(OUTSIDE)
        topology.link(nic, chance.choice(switches), LinkKind.NETWORK, speed)


def broken() -> Iterator[NamedMachine]:
    """Each random machine without one of its links that it can do without."""
    for number in range(RANDOM):
        yield NamedMachine(f"random {number} broken", partial(broken_machine, number))


def broken_machine(seed: int) -> Topology:
    """A random machine without a random link; as it is if it needs all of them."""
    chance, machine = random.Random(f"broken {seed}"), random_machine(seed)
    links = [link for link in machine.links if LinkKind.PCIE is not link.kind]
    for link in chance.sample(links, len(links)):
        rest = machine.without("-".join(link.ends))
        devices = [device.id for device in rest.devices()]
        if is_connected(devices, (link.ends for link in rest.links)):
            return rest
    return machine


def subsets() -> Iterator[NamedMachine]:
    """Random devices of one or two servers."""
    names = [name for name in presets.machines() if _has_few(name)]
    for seed in range(SUBSETS):
        chance = random.Random(f"subset {seed}")
        name, hosts = chance.choice(names), chance.choice((1, 2))
        yield NamedMachine(
            f"{name} hosts={hosts} subset {seed}", partial(_part, name, hosts, seed)
        )


def _has_few(name: str) -> bool:
    """Whether a preset has not a rack of devices."""
    return len(ranks_of(Topology.load(name))) <= 16


def _part(name: str, hosts: int, seed: int) -> Topology:
    """A machine with at least two of its devices, and one of each host."""
    chance, machine = random.Random(f"part {seed}"), Topology.load(name, hosts=hosts)
    ranks = ranks_of(machine)
    while True:
        kept = chance.sample(ranks, chance.randint(2, max(2, len(ranks) - 1)))
        lost = [one for one in ranks if one not in kept]
        if len({machine.device(one).host for one in kept}) == len(machine.hosts):
            return machine.without(*lost)


#: The groups that need no files.
GROUPS: dict[str, Callable[[], Iterator[NamedMachine]]] = {
    "presets": of_presets,
    "fabrics": of_fabrics,
    "random": at_random,
    "broken": broken,
    "subsets": subsets,
}

#: The group of the files of a folder.
FILES = "files"
