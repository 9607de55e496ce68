"""The graph of a machine or a cluster, and its constructors."""

from typing import Any

from collalgo.base import notebook
from collalgo.base.hooks import hook
from collalgo.topology.elements import FAST, Device, Kind, Link, LinkKind
from collalgo.topology.graph import DeviceGraph

__all__ = ["FAST", "Device", "Kind", "Link", "LinkKind", "Topology"]


class Topology(DeviceGraph):
    """Devices and links.

    Attributes
    ----------
    name : str
        The name of the machine.
    source : str
        The file it was read from, or how it was built or detected.
    graph : networkx.MultiGraph
        A copy: nodes are device ids with the attribute ``device``; edges have the kind
        of link as their key and the attribute ``link``.
    warnings : list of str
        Implausible or unknown values, each with the element.
    """

    @classmethod
    def load(cls, name: str, **parameters: Any) -> "Topology":
        """Build a named machine or fabric.

        Parameters
        ----------
        name
            A preset of ``collalgo topo list``, as ``dgx1v``, or a fabric, as ``torus``.
        **parameters
            ``hosts``, ``nics`` and the speeds of links in GB/s, as ``nvlink=25.0``.

        Examples
        --------
        >>> from collalgo import Topology
        >>> machine = Topology.load("dgx1v", nvlink=25.0)
        >>> len(machine.devices("gpu"))
        8
        """
        topology: Topology = hook("Topology.load")(name, **parameters)
        return topology

    @classmethod
    def read(cls, path: Any, **parameters: Any) -> "Topology":
        """Read a file; its format is recognised by its content.

        Parameters
        ----------
        path
            The file.
        **parameters
            ``hosts``, ``nics`` and so on, as of :meth:`load`; and other values for the
            parameters that a file of the native format declares, as ``nvlink=25.0``.

        Raises
        ------
        TopologyError
            If the file cannot be read or is too large, the format is unknown, the
            content is invalid, or there is no such parameter.
        """
        topology: Topology = hook("Topology.read")(path, **parameters)
        return topology

    @classmethod
    def detect(cls) -> "Topology":
        """Detect the machine that this process runs on."""
        topology: Topology = hook("Topology.detect")()
        return topology

    @classmethod
    def of(cls, comm: Any = None) -> "Topology":
        """The machines of all ranks of a communicator as one graph (collective).

        Where no host has GPUs, each rank has a core, ``"host0/rank3"``, so that
        ``comm.replan`` takes the topology, or one derived of it.
        """
        topology: Topology = hook("Topology.of")(comm)
        return topology

    def without(self, *names: str) -> "Topology":
        """The same machine without some links, devices or hosts.

        Parameters
        ----------
        *names
            Links by their ends, as ``"gpu1-gpu5"``, or as the library prints them, as
            ``"nvlink host0/gpu1 - host0/gpu5"``; devices, as ``"host1/nic0"``; hosts,
            as ``"host1"``. The host may be left out where only one device, or
            one link, has such a name.

        Raises
        ------
        TopologyError
            If there is no such element, or several have the name.

        Examples
        --------
        >>> from collalgo import Topology
        >>> machine = Topology.load("dgx1v")
        >>> len(machine.links) - len(machine.without("gpu1-gpu5").links)
        1
        """
        topology: Topology = hook("Topology.without")(self, *names)
        return topology

    def degraded(self, name: str, factor: float) -> "Topology":
        """The same machine with slower links.

        Parameters
        ----------
        name
            A link, or a device or a host with all of its links, as of :meth:`without`.
        factor
            The remaining fraction of the bandwidth, above 0 and at most 1.

        Raises
        ------
        TopologyError
            If there is no such element, several have the name, or the factor is out of
            range.

        Examples
        --------
        >>> from collalgo import Topology
        >>> machine = Topology.load("dgx1v").degraded("gpu0-gpu3", 0.5)
        >>> [link.bandwidth for link in machine.links if link.fraction < 1]
        [25.0]
        """
        topology: Topology = hook("Topology.degraded")(self, name, factor)
        return topology

    def write(self, path: Any, *, force: bool = False) -> None:
        """Write the native format: JSON if the name ends in ``.json``, else YAML.

        Raises
        ------
        OutputError
            If the file cannot be written or, unless by ``force``, holds anything but a
            topology that was written so.
        """
        hook("Topology.write")(self, path, force=force)

    def _repr_svg_(self) -> str | None:
        return notebook.picture(self._obstacle, lambda: str(hook("Topology.svg")(self)))

    def _repr_html_(self) -> str | None:
        return notebook.text(self, self._obstacle)

    def _obstacle(self) -> str:
        return str(hook("Topology.obstacle to a picture")(self))
