"""Programs of MSCCL that tests read."""

from collalgo import verify
from collalgo.integrations.msccl.msccl import parse
from collalgo.integrations.msccl.row import named_after


def read(text):
    return named_after(parse(text), "test.xml")


def proof_of(row, size):
    return verify(row.schedule, size=size, collective=row.collective)


def algo(collective, gpus, chunks, *, inplace=1):
    """The XML of GPUs, each a list of (send, recv, channel, steps)."""
    lines = [
        f'<algo name="of-others 1" proto="LL" nchannels="2" nchunksperloop="{chunks}" '
        f'ngpus="{len(gpus)}" coll="{collective}" inplace="{inplace}">'
    ]
    for number, blocks in enumerate(gpus):
        lines.append(f'<gpu id="{number}" i_chunks="1" o_chunks="1" s_chunks="1">')
        for tb, (send, recv, channel, steps) in enumerate(blocks):
            lines.append(f'<tb id="{tb}" send="{send}" recv="{recv}" chan="{channel}">')
            for s, (kind, source, target, count, *after) in enumerate(steps):
                depid, deps = after or (-1, -1)
                lines.append(
                    f'<step s="{s}" type="{kind}" srcbuf="{source[0]}" '
                    f'srcoff="{source[1:]}" dstbuf="{target[0]}" '
                    f'dstoff="{target[1:]}" cnt="{count}" depid="{depid}" '
                    f'deps="{deps}" hasdep="0"/>'
                )
            lines.append("</tb>")
        lines.append("</gpu>")
    return "\n".join([*lines, "</algo>"])


def all_pairs(size):
    """Everyone receives its part of all into scratch, adds it up, and sends it back."""
    gpus = []
    for me in range(size):
        others = [peer for peer in range(size) if peer != me]
        adding = [("nop", "i-1", "o-1", 0, 1 + k, 1) for k in range(1, size - 1)]
        adding += [
            ("re", f"s{k}", f"i{me}", 1, *([1, 1] if not k else []))
            for k in range(size - 1)
        ]
        blocks = [(-1, -1, 0, adding)]
        for place, peer in enumerate(others):
            there = [p for p in range(size) if p != peer].index(me)
            steps = [
                ("s", f"i{peer}", f"s{there}", 1),
                ("r", f"i{me}", f"s{place}", 1),
                ("s", f"i{me}", f"i{me}", 1, 0, len(adding) - 1),
                ("r", f"i{peer}", f"i{peer}", 1),
            ]
            blocks.append((peer, peer, 0, steps))
        gpus.append(blocks)
    return algo("allreduce", gpus, size)


def fused_ring(size, *, kept="rrs"):
    """A ring in one block for each GPU, which sends on what it receives."""
    gpus = []
    for me in range(size):
        at = [f"i{(me - step) % size}" for step in range(2 * size)]
        steps = [("s", at[0], at[0], 1)]
        steps += [(kept, at[k], at[k], 1) for k in range(1, size - 1)]
        steps += [("rrcs", at[size - 1], at[size - 1], 1)]
        steps += [("rcs", at[k], at[k], 1) for k in range(size, 2 * size - 2)]
        steps += [("r", at[2 * size - 2], at[2 * size - 2], 1)]
        gpus.append([((me + 1) % size, (me - 1) % size, 0, steps)])
    return algo("allreduce", gpus, size)


def out_of_place(size):
    """An alltoall and an allreduce whose results are apart from what they read."""
    gpus = []
    for me in range(size):
        steps = [[("cpy", f"i{me}", f"o{me}", 1)]]
        blocks = [(-1, -1, 0, steps[0])]
        for peer in range(size):
            if peer != me:
                swap = [("s", f"i{peer}", f"o{me}", 1), ("r", f"i{me}", f"o{peer}", 1)]
                blocks.append((peer, peer, 0, swap))
        gpus.append(blocks)
    return algo("alltoall", gpus, size, inplace=0)
