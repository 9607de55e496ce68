"""The slices of a call on one host, by the best price."""

from math import inf

from collalgo.cost.host_profile import HostProfile
from collalgo.engine.call import Call
from collalgo.engine.plan.chunk_pipelining import RANKS, Slicing, cut, step_count
from collalgo.engine.plan.lowering import UNSLICED
from collalgo.schedule import ScheduleFunction
from collalgo.schedule.collective import COLLECTIVES
from collalgo.selection.on_host import price

#: The largest buffer that is never sliced, in bytes, and that of schedules of one step,
#: whose messages move in segments anyway: two ranks reduced, scanned, gathered and
#: scattered 24 to 128 KiB in 0.7 to 0.95 of the time unsliced, but 1 MiB in 1.1 to 1.2.
SHORT, SHORT_STEP = 1 << 14, 1 << 19


def slicing_of(
    call: Call, schedule: ScheduleFunction, nbytes: int, size: int, profile: HostProfile
) -> tuple[Slicing, float, float]:
    """The slicing of calls of a size, and the sizes of which it is the same."""
    collective = COLLECTIVES[call.collective]
    buffers, short = collective.buffers(size), SHORT + 1
    if size > RANKS:
        return UNSLICED, 0, inf
    if nbytes * buffers < short:  # before the schedule is traced to count its steps
        return UNSLICED, 0, short / buffers
    if step_count(schedule, size, call.root) == 1:
        short = SHORT_STEP + 1
        if nbytes * buffers < short:
            return UNSLICED, (SHORT + 1) / buffers, short / buffers
    count, least, limit = price(schedule, size, profile).slices.at(nbytes * buffers)
    blocks = collective.buffer_blocks(size) if call.shares(size) else 1
    slicing = cut(count, schedule, size, call.root, blocks)
    return slicing, max(least, short) / buffers, limit / buffers
