"""The topology of the ranks of a communicator, gathered over that communicator."""

import json
from typing import TYPE_CHECKING, Any, cast

from collalgo.base.arguments import shown
from collalgo.base.digest import hexadecimal
from collalgo.bootstrap.host_inventory import detected, placed_on
from collalgo.comm.current import runner_of
from collalgo.comm.types import Communicator
from collalgo.cost.host_profile import host_profile
from collalgo.topology.document import build, document
from collalgo.topology.model import Kind, Topology
from collalgo.topology.ranks import add_rank_cores, detect_again, local_view, merge

if TYPE_CHECKING:
    import mpi4py.MPI

    from collalgo.comm.runner import Runner


def of(comm: "Communicator | mpi4py.MPI.Comm | None" = None) -> Topology:
    """The machines of all ranks as one graph; see ``Topology.of``."""
    views = _views(cast("Runner", runner_of(comm)), "Topology.of")
    topology = merge(views)
    if not topology.devices(Kind.GPU):
        add_rank_cores(topology, views[0]["copy"])
    return topology


def _views(runner: "Runner", call: str, **more: Any) -> list[dict[str, Any]]:
    """The machine as each rank sees it now, with the GB/s at which a core copies."""
    detect_again()
    mine = {**local_view(), **more, "copy": 1e-9 / host_profile().copy}
    return [
        json.loads(v) for v in runner.exchange_bytes(json.dumps(mine).encode(), call)
    ]


def replan(runner: "Runner", topology: Topology | None) -> None:
    """Choose the algorithms of all further calls by other machines.

    See :meth:`collalgo.Communicator.replan`.
    """
    given = _document_of(topology)
    seal = hexadecimal(json.dumps(given, sort_keys=True), 32)
    views = _views(runner, "replan", seal=seal)
    for rank, view in enumerate(views):
        if view["seal"] != views[0]["seal"]:
            raise ValueError(
                f"replan: ranks 0 and {rank} pass different topologies; pass the same "
                "one on every rank, or none"
            )
    hosts = runner.context.hosts
    if given is not None:
        runner.replan(placed_on(build(given), views, hosts))
    elif len(set(hosts)) > 1:
        runner.replan(detected(views, hosts, views[0]["copy"]))
    else:
        runner.replan(None)


def _document_of(topology: Any) -> dict[str, Any] | None:
    """The document of a topology, if one is given."""
    if topology is None:
        return None
    if not isinstance(topology, Topology):
        raise TypeError(
            f"replan: topology is {shown(topology)}; pass a Topology, as of "
            "Topology.detect(), Topology.load(name) or Topology.read(path)"
        )
    return document(topology)
