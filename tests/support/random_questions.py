"""Random machines, calls and rules, of which select is asked."""

from functools import partial

import numpy as np
import yaml

from collalgo import ALGORITHMS, Topology
from collalgo.algorithms import ring
from collalgo.bootstrap.host_inventory import PlacedTopology
from collalgo.comm.program_cache import ProgramCache
from collalgo.cost.host_profile import HostProfile
from collalgo.schedule.collective import COLLECTIVES

#: Names that are not in the table as they stand, or not at all.
OTHER_NAMES = ("ring(segments=3)", "k_nomial(radix=3)", "linear(lanes=2)", "rign")


REDUCING = ("allreduce", "reduce", "reduce_scatter", "scan", "exscan")


REPRODUCIBLE = ("allreduce", "reduce", "reduce_scatter")


BLOCKS = ("allgather", "gather", "scatter", "reduce_scatter", "alltoall")


def mine(group, rounds=1):
    """A schedule of a user, right for an allreduce only."""
    yield from ring.allreduce(group)


def random_profile(rng):
    """A host that does not exist, with any relation of latencies and bandwidths."""
    latency, switch, message = 10 ** rng.uniform((-7, -6, -8), (-5, -4, -6))
    copy, reduce = 10 ** rng.uniform(-11, -9, 2)
    far = rng.uniform(1, 3)
    return HostProfile(
        latency, switch, message, copy, reduce, int(rng.integers(1, 65)),
        copy * far, reduce * far, int(2 ** rng.uniform(16, 26)),
        exchange=rng.choice([0.0, copy]), fetch=rng.choice([0.0, copy / 2]),
    )  # fmt: skip


def random_algorithm(rng, collective):
    names = [row.name for row in ALGORITHMS if row.collective == collective]
    pool = [*names, *OTHER_NAMES]
    match rng.choice(4, p=[0.5, 0.3, 0.15, 0.05]):
        case 0:
            return None
        case 1:
            return str(rng.choice(pool))
        case 2:
            return tuple(map(str, rng.choice(pool, rng.integers(1, 4))))
        case _:
            return partial(mine, rounds=2) if rng.random() < 0.5 else mine


def random_environment(rng, folder):
    """Variables by which the environment decides, for half of the worlds nothing."""
    collective = str(rng.choice(list(COLLECTIVES)))
    names = [row.name for row in ALGORITHMS if row.collective == collective]
    match rng.choice(3, p=[0.5, 0.2, 0.3]):
        case 0:
            return {}
        case 1:
            return {f"COLLALGO_{collective.upper()}": str(rng.choice(names))}
        case _:
            sizes = {int(2 ** rng.uniform(0, 28)): str(rng.choice(names)) for _ in "12"}
            rule = {"ranks": f"{rng.integers(1, 9)}..", "sizes": sizes}
            rules = {"collalgo": "rules/1", "rules": {collective: [rule]}}
            path = folder / f"rules{rng.integers(1 << 30)}.yaml"
            path.write_text(yaml.safe_dump(rules | {"blocks": ["alltoall"]}))
            return {"COLLALGO_RULES": str(path)}


def fields_of(rng, collective, size, most):
    """The fields of a random call, and the bytes of its larger buffer."""
    dtype = np.dtype(rng.choice(["int8", "float32", "complex128"]))
    nbytes = 0 if rng.random() < 0.05 else int(2 ** rng.uniform(0, most))
    whole = nbytes // dtype.itemsize if collective != "barrier" else 0
    if collective in BLOCKS:
        whole -= whole % size
    passes_block = collective in ("allgather", "gather", "scatter")
    count = whole // size if passes_block else whole
    counts = None
    if collective in ("allgather", "reduce_scatter") and rng.random() < 0.2:
        counts = tuple(map(int, rng.multinomial(whole, np.full(size, 1 / size))))
        count = counts[0] if passes_block else count
    rooted = COLLECTIVES[collective].rooted
    root = int(rng.integers(size)) if rooted else 0
    op = "sum" if collective in REDUCING else None
    reproducible = collective in REPRODUCIBLE and rng.random() < 0.2
    algorithm = random_algorithm(rng, collective)
    fields = collective, dtype, count, op, root, algorithm, counts, bool(reproducible)
    return fields, whole * dtype.itemsize


def world_on_a_host(rng):
    size = int(rng.choice([1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 33]))
    return ProgramCache(int(rng.integers(size)), size, random_profile(rng))


def world_of_hosts(rng):
    """Ranks on some of the devices of several hosts."""
    name = str(rng.choice(["dgx1v", "dgx_h100", "server8"]))
    topology = Topology.load(name, hosts=int(rng.integers(2, 4)))
    every = topology.devices("gpu")
    size = int(rng.integers(2, len(every) + 1))
    some = every[:: max(1, len(every) // size)][:size]
    number = {host: i for i, host in enumerate(topology.hosts)}
    hosts = [number[device.host] for device in some]
    placed = PlacedTopology(topology, tuple(device.id for device in some))
    return ProgramCache(0, size, random_profile(rng), hosts, lambda: placed)
