"""The forms of plans that are tried.

The best number of rounds differs between sizes and machines. With twice or half of it a
plan loses a quarter of what is lost to start-up and to waiting.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from collalgo.synthesis.paces import EVEN, FILLED, GENTLE, RAMP, SLOW, STEEP
from collalgo.synthesis.path_traffic import EVENLY, FAR_FIRST
from collalgo.synthesis.planner import SEVERAL, Form
from collalgo.synthesis.ways import PLANNED, WAVES, Stage

#: The numbers of rounds and the paces that are tried.
TRIED = ((2, EVEN), (3, EVEN), (4, EVEN), (16, EVEN), (64, EVEN))

#: Further forms where some steps may be longer than others, and where they may not.
#: Those of more rounds than :data:`MANY` are tried only where no waves are, which are
#: cheaper.
MANY = 256
LONGER, SHORTER = (
    ((64, "fifth"), (64, "half"), (128, "fifth")),
    tuple((n, EVEN) for n in (128, 256, 512, 1024)),
)

#: Further forms where paths of several hops are spread between direct ones, and where
#: they come before these.
OF_PATHS: Mapping[str, Sequence[tuple[int, str]]] = MappingProxyType(
    {
        EVENLY: ((32, "half"), (128, "half"), (256, "half")),
        FAR_FIRST: ((4, "half"), (16, "half"), (32, "half"), (16, STEEP)),
    }
)

#: Forms where a rank combines with several peers in a step, in ways other than waves.
JOINT = (
    *((2, EVEN), (3, EVEN), (4, EVEN)),
    *((8, "half"), (16, "half"), (32, "half"), (192, "half")),
    *((64, "fifth"), (128, "fifth"), (192, "fifth")),
)

#: The same where sums are sent back down the trees meanwhile.
JOINT_BOTH_WAYS = ((64, RAMP), (128, "half"))

#: Forms in which all trees carry data in each step: from one rank, to one rank, to and
#: from their centres, and from or to all ranks.
FROM_ONE, TO_ONE, BOTH_WAYS, OF_ALL = (
    (
        *((16, EVEN), (32, EVEN), (64, EVEN), (128, EVEN), (16, STEEP), (32, STEEP)),
        *((24, FILLED), (32, FILLED), (48, FILLED), (64, FILLED)),
        *((n, GENTLE) for n in (16, 24, 32, 48)),
        *((n, SLOW) for n in (12, 16, 32)),
        *((n, RAMP) for n in (24, 32, 48, 64, 96, 192)),
    ),
    (
        *((24, EVEN), (48, EVEN), (96, EVEN), (16, STEEP)),
        *((24, FILLED), (48, FILLED), (64, FILLED)),
        *((n, GENTLE) for n in (16, 24, 32)),
        *((n, SLOW) for n in (16, 32)),
        *((n, RAMP) for n in (32, 64, 128)),
    ),
    (
        *((24, EVEN), (48, EVEN), (96, EVEN), (192, EVEN), (64, FILLED)),
        *((n, RAMP) for n in (32, 64, 128, 192)),
    ),
    (
        *((32, EVEN), (48, EVEN), (64, EVEN), (128, EVEN)),
        *((16, RAMP), (32, RAMP), (16, FILLED), (32, FILLED)),
    ),
)

#: The forms of waves of each collective, without the number of peers.
OF_WAVES: Mapping[str, Sequence[tuple[int, str]]] = MappingProxyType(
    {
        "broadcast": FROM_ONE,
        "reduce": TO_ONE,
        "allreduce": BOTH_WAYS,
        "allgather": OF_ALL,
        "reduce_scatter": OF_ALL,
    }
)

#: The numbers of rounds of waves in which a rank combines with one peer at a time. It
#: combines the data of its children in several steps, which delay the others least if
#: they are short.
WITH_ONE = (96, 192)


def forms(collective: str, way: str) -> list[Form]:
    """The forms of a way that are tried; of equal ones the first is taken."""
    stages = PLANNED[collective][way]
    if way == WAVES:
        return _in_waves(collective, stages[0])
    single = [*TRIED, *(SHORTER if all(one.reduces for one in stages) else LONGER)]
    single += OF_PATHS.get(way, ())
    joint: Sequence[tuple[int, str]] = ()
    if any(one.reduces for one in stages):
        joint = JOINT if stages[0].reverse else JOINT_BOTH_WAYS
    return [
        *(Form(way, rounds, pace, SEVERAL) for rounds, pace in joint),
        *(Form(way, rounds, pace) for rounds, pace in single),
    ]


def _in_waves(collective: str, stage: Stage) -> list[Form]:
    """The forms that are tried where all trees carry data in each step."""
    tried = OF_WAVES[collective]
    if not stage.reduces:
        return [Form(WAVES, *one) for one in tried]
    joint = [Form(WAVES, *one, SEVERAL) for one in tried]
    return joint + [Form(WAVES, rounds) for rounds in WITH_ONE]
