"""The file of NCCL's example tuner plug-in: lines of comma-separated values."""

from collections.abc import Iterator
from itertools import pairwise

from collalgo.selection.peer_rules.algorithms import Table, ours
from collalgo.selection.policies import nccl

COLUMNS = (
    "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks"
)

#: The largest size, which covers all above, and the number of channels of NCCL itself.
LARGEST, CHANNELS = (1 << 64) - 1, -1


def environment(file: str, _hosts: int = 1) -> dict[str, str]:
    """The variables with which NCCL follows a file."""
    plugin = "libnccl-tuner-example.so"
    return {"NCCL_TUNER_PLUGIN": plugin, "NCCL_TUNER_CONFIG_FILE": file}


def text_of(table: Table, mark: str, world: nccl.World) -> str:
    """The file; the protocol of each algorithm is that of NCCL's tuning model."""
    lines = [f"# {mark}", f"# {COLUMNS}"]
    for collective, by_ranks in table.items():
        for ranks, sizes in by_ranks.items():
            for (least, name), (limit, _) in pairwise([*sizes.items(), (0, "")]):
                top = limit - 1 if limit else LARGEST
                for low, high, protocol in _protocols(collective, name, world):
                    if low <= top and high >= least:
                        lines.append(
                            f"{collective},{max(low, least)},{min(high, top)},{name},"
                            f"{protocol},{CHANNELS},{world.hosts},{ranks}"
                        )
    return "\n".join([*lines, ""])


def _protocols(
    collective: str, shape: str, world: nccl.World
) -> Iterator[tuple[int, int, str]]:
    """The least and the largest size of each protocol of a shape."""
    if shape == "pat":  # which has no other
        yield 0, LARGEST, "simple"
        return
    found = nccl.by_size(ours(collective), world, (shape,))
    for (least, (_, protocol)), (limit, _) in pairwise(
        [*found, (LARGEST + 1, ("", ""))]
    ):
        yield least, limit - 1, protocol.lower()
