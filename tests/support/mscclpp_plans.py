"""Small execution plans of MSCCL++ for two GPUs."""

import json


def plan_text(gpus):
    """An allreduce of two GPUs, given by the operations of their blocks."""
    document = {
        "name": "mine",
        "collective": "allreduce",
        "protocol": "Simple",
        "inplace": True,
        "gpus": [gpu_of(me, blocks) for me, blocks in enumerate(gpus)],
    }
    return json.dumps(document)


KINDS = ("memory", "port")


def gpu_of(me, blocks):
    """A GPU, which has a channel of each kind to the other for each block."""
    lengths = {"input_chunks": 2, "output_chunks": 2, "scratch_chunks": 4}
    peers, kinds = [1 - me] * len(blocks), list(KINDS)
    remote = [
        {"rank": 1 - me, "type": buffer, "access_channel_types": kinds}
        for buffer in "ios"
    ]
    return {
        "id": me,
        **lengths,
        "channels": [{"channel_type": kind, "connected_to": peers} for kind in KINDS],
        "remote_buffers": remote,
        "semaphores": [{"init_value": 0}],
        "threadblocks": [block_of(*each) for each in enumerate(blocks)],
    }


def block_of(number, ops):
    """A thread block, with its channels and all buffers of the other GPU."""
    refs = {"remote_buffer_ids": [0, 1, 2]}
    return {
        "id": number,
        "ops": ops,
        "channels": [{"channel_type": kind, "channel_ids": [number]} for kind in KINDS],
        "remote_buffer_refs": [{"access_channel_type": kind, **refs} for kind in KINDS],
    }


def on(name, kind="memory", **others):
    """An operation on the channel of a block."""
    return {"name": name, "channel_type": kind, "channel_ids": [0], **others}


def span(where, first, count=1):
    """Chunks of a buffer of the GPU, or of its peer by i, o or s in upper case."""
    if where.isupper():
        return {"buffer_id": "IOS".index(where), "index": first, "size": count}
    return {"type": where, "index": first, "size": count}


def data(name, sources, targets, kind="memory"):
    """An operation on data."""
    found = {"name": name, "src_buff": sources, "dst_buff": targets}
    return {**found, "channel_type": kind}


NOP = {"name": "nop"}
HELLO = [on("rlxsignal"), on("rlxwait"), NOP]
OVER = [NOP, on("signal"), on("wait")]


def reading_and_sending(me):
    """Each adds its half of the other's input, and writes the sum to both."""
    mine, theirs = span("i", me), span("I", me)
    return [[*HELLO, data("rres", [mine, theirs], [mine, theirs]), *OVER]]


def getting(me):
    """Each copies its input to scratch, from which the other gets and adds it."""
    sent = data("copy", [span("i", 0, 2)], [span("s", 0, 2)])
    got = data("get", [span("S", 0, 2)], [span("s", 2, 2)])
    added = data("re", [span("i", 0, 2), span("s", 2, 2)], [span("i", 0, 2)])
    return [[sent, *OVER, NOP, got, NOP, added, NOP, *OVER]]


def packets(me):
    """Each puts half of its input as packets, and the sum of the other half."""
    out = data("ppkt", [span("i", 1 - me)], [span("S", 0)])
    both = [span("i", me), span("S", 1)]
    summed = data("respkt", [span("i", me), span("s", 0)], both)
    return [[out], [summed], [data("upkt", [span("s", 1)], [span("i", 1 - me)])]]


def through_a_port(me):
    """Each puts its input into the scratch of the other by the port."""
    put = data("pwsf", [span("i", 0, 2)], [span("S", 0, 2)], "port")
    added = data("re", [span("i", 0, 2), span("s", 0, 2)], [span("i", 0, 2)])
    meeting = {"name": "barrier", "barrier_id": 0, "num_threadblocks": 2}
    waits = [on("wait", "port"), meeting]
    # The second block adds what has come for the first.
    return [[{**put, "channel_ids": [0]}, *waits], [meeting, added]]


PLANS = {
    f.__name__: plan_text([f(0), f(1)])
    for f in (reading_and_sending, getting, packets, through_a_port)
}
