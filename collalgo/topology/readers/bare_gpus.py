"""Warn of GPUs without links of their own, which files often leave out."""

from collections.abc import Sequence

from collalgo.topology.model import FAST, Device, Kind, Topology

#: The most GPUs that a warning names.
MOST_NAMED = 5


def warn_of_bare_gpus(topology: Topology, advice: str) -> None:
    """Warn of the GPUs of each host that only PCIe joins, if others have links.

    Parameters
    ----------
    topology
        What was read.
    advice
        Why the file may lack such links, and what to do.
    """
    for host in topology.hosts:
        gpus = topology.devices(Kind.GPU, host=host)
        bare = [gpu for gpu in gpus if not _has_fast_links(topology, gpu)]
        if len(gpus) > 1 and bare:
            topology.warn(
                f"{_named(bare, len(gpus), host)} no NVLink or xGMI in the file, so "
                f"only PCIe and CPUs join them to other GPUs; {advice}"
            )


def _has_fast_links(topology: Topology, gpu: Device) -> bool:
    return any(link.kind in FAST for link in topology.links_of(gpu.id))


def _named(bare: Sequence[Device], gpus: int, host: str) -> str:
    """The GPUs of a host that are bare, with the verb."""
    if len(bare) == gpus:
        return f"the {gpus} GPUs of {host} have"
    names = [gpu.id for gpu in bare[:MOST_NAMED]]
    more = f" and {len(bare) - MOST_NAMED} others" if len(bare) > MOST_NAMED else ""
    return f"{', '.join(names)}{more} {'has' if len(bare) == 1 else 'have'}"
