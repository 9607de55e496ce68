"""Compare algorithms and peers on the cluster of a file, also with a link cut."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from collalgo.bench.cluster.environments import races_on
from collalgo.bench.cluster.kernel import down, namespaces, set_link, up
from collalgo.bench.cluster.layout import Layout, layout_of_file
from collalgo.bench.cluster.leftovers import guarded_folder
from collalgo.bench.cluster.rerouting import reroute

from collalgo.topology.model import Topology


@contextmanager
def cluster_of(file: Path, cut: str | None = None) -> Iterator[tuple[Layout, Path]]:
    """A cluster that is up meanwhile, and the file of its topology.

    Where a link is cut, it is cut on the cluster as well, with routes around it, and
    missing in the topology.

    Raises
    ------
    ClusterError
        If there is no way around the link.
    """
    layout = layout_of_file(file)
    cable = layout.cable(cut) if cut else None
    with guarded_folder(*namespaces(layout)) as folder:
        up(layout)
        try:
            if cable:
                rest = Topology.read(file).without(cable.topology_link)
                file = folder / file.name
                rest.write(file)
                set_link(layout, cable.link, working=False)
                reroute(layout, [cable.link])
            yield layout, file
        finally:
            down(layout)


def compare(
    file: Path,
    cut: str | None,
    environments: Sequence[Path],
    options: Sequence[str],
    first: Sequence[str],
) -> list[dict[str, Any]]:
    """The results of a race over each environment on the cluster of a file.

    ``options`` are those of :mod:`collalgo.bench.cluster.race`, ``first`` those for the
    first environment; beyond it only the choice is measured, as it is known then.

    Raises
    ------
    ClusterError
        If a race fails, or there is no way around the link that is cut.
    """
    options = [*options, "--most", "1", "--near", "0"]
    with cluster_of(file, cut) as (layout, described):
        return list(races_on(layout, described, environments, options, first))
