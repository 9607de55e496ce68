"""Tori of GPUs that are cut into hosts: both axes mix NVLinks and NICs."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count

from collalgo.errors import TopologyError
from collalgo.topology.fabrics import MOST_AXES, Cable, wire
from collalgo.topology.graph import LARGEST
from collalgo.topology.model import Kind, LinkKind, Topology


def tiled_torus(
    dims: Sequence[int], tile: Sequence[int], nvlink: float, cable: Cable
) -> Topology:
    """A torus of GPUs, the first dimension fastest; each host is a tile.

    Neighbours in a tile have an NVLink. Between tiles each GPU at the border has a NIC
    for the neighbour beyond it, and a cable joins the two.

    Parameters
    ----------
    dims
        The numbers of GPUs along the axes.
    tile
        The same of a host; they divide those of the torus.
    nvlink
        GB/s of an NVLink in each direction.
    cable
        Between two NICs; their slots are as fast.
    """
    shape = f"{'x'.join(map(str, dims))} of {'x'.join(map(str, tile))}"
    _check(shape, dims, tile)
    topology = Topology(f"tiled torus {shape}", "built")
    gpus = [_gpu(topology, i, dims, tile) for i in range(math.prod(dims))]
    numbers: dict[str, Iterator[int]] = defaultdict(count)
    join = partial(_join, topology, nvlink=nvlink, cable=cable, numbers=numbers)
    for axis, length in enumerate(dims):
        stride = math.prod(dims[:axis])
        for i, gpu in enumerate(gpus):
            position = i // stride % length
            if position + 1 < length:
                join(gpu, gpus[i + stride])
            elif length > 2:
                join(gpu, gpus[i - position * stride])
    return topology


def _check(shape: str, dims: Sequence[int], tile: Sequence[int]) -> None:
    """Refuse tiles that do not fill a torus."""
    if len(dims) > MOST_AXES or math.prod(dims) > LARGEST or min(dims, default=0) < 1:
        raise TopologyError(
            f"tiled_torus {shape}: dims must have 1 to {MOST_AXES} axes, and at most "
            f"{LARGEST} GPUs"
        )
    if (
        len(dims) != len(tile)
        or min(tile) < 1
        or any(n % part for n, part in zip(dims, tile, strict=True))
    ):
        raise TopologyError(
            f"tiled_torus {shape}: tile must have an axis for each of dims, which it "
            "divides, as dims=8x4 tile=4x2"
        )


def _gpu(
    topology: Topology, number: int, dims: Sequence[int], tile: Sequence[int]
) -> str:
    """Add a GPU to the host of its tile."""
    host = local = 0
    hosts = locals_ = stride = 1
    for length, part in zip(dims, tile, strict=True):
        position = number // stride % length
        host += position // part * hosts
        local += position % part * locals_
        hosts, locals_, stride = (
            hosts * (length // part),
            locals_ * part,
            stride * length,
        )
    name = f"host{host}"
    return topology.add(f"{name}/gpu{local}", Kind.GPU, host=name)


def _join(
    topology: Topology,
    a: str,
    b: str,
    *,
    nvlink: float,
    cable: Cable,
    numbers: Mapping[str, Iterator[int]],
) -> None:
    """Join two GPUs by an NVLink, or by a NIC of each if their hosts differ.

    ``numbers`` are those of the next NICs of each host.
    """
    hosts = [topology.device(gpu).host or "" for gpu in (a, b)]
    if hosts[0] == hosts[1]:
        topology.link(a, b, LinkKind.NVLINK, nvlink)
        return
    nics = [f"{host}/nic{next(numbers[host])}" for host in hosts]
    for gpu, host, name in zip((a, b), hosts, nics, strict=True):
        _nic(topology, gpu, host, name, cable)
    wire(topology, nics[0], nics[1], cable)


def _nic(topology: Topology, gpu: str, host: str, name: str, cable: Cable) -> None:
    """Add a NIC of its own to a GPU."""
    nic = topology.add(name, Kind.NIC, host=host, speed=cable.bandwidth)
    topology.link(gpu, nic, LinkKind.PCIE, cable.bandwidth)
