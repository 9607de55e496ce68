"""The topology of the ranks of a communicator, gathered over that communicator."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from collalgo._kernels.comm.call_runner import CallRunner
from collalgo.base.digest import hexadecimal
from collalgo.base.integers import shown
from collalgo.bootstrap.host_inventory import detected, placed_on
from collalgo.comm.current import runner_of
from collalgo.comm.functions.sharing import allgather, allgatherv
from collalgo.comm.types import Communicator
from collalgo.cost.host_profile import host_profile
from collalgo.topology.document import build, document
from collalgo.topology.model import Topology
from collalgo.topology.ranks import local_view, merge

if TYPE_CHECKING:
    import mpi4py.MPI

    from collalgo.comm.runner import Runner


def of(comm: "Communicator | mpi4py.MPI.Comm | None" = None) -> Topology:
    """The machines of all ranks as one graph; see ``Topology.of``."""
    return merge(gathered(local_view(), runner_of(comm)))


def gathered(mine: dict[str, Any], runner: CallRunner) -> list[dict[str, Any]]:
    """The documents of all ranks, as JSON."""
    content = np.frombuffer(json.dumps(mine).encode(), np.uint8)
    lengths = allgather(np.array([len(content)]), runner)[:, 0].tolist()
    joined = allgatherv(content, runner, lengths)
    parts = np.split(joined, np.cumsum(lengths)[:-1])
    return [json.loads(part.tobytes()) for part in parts]


def replan(runner: "Runner", topology: Topology | None) -> None:
    """Choose the algorithms of all further calls by other machines.

    See :meth:`collalgo.Communicator.replan`.
    """
    given = _document_of(topology)
    seal = hexadecimal(json.dumps(given, sort_keys=True), 32)
    mine = {**local_view(), "seal": seal, "copy": 1e-9 / host_profile().copy}
    views = gathered(mine, runner)
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
