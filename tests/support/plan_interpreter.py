"""An interpreter of the execution plans of MSCCL++, in random order of the blocks.

It shares no code with the reader: it follows the fields of the JSON. Every chunk holds
a home and the ranks that contributed, and a put writes at once.
"""

import json
from collections import Counter, defaultdict

COLLECTIVES = {"reducescatter": "reduce_scatter"}


class Machine:
    """The memory, signals and semaphores of all GPUs."""

    def __init__(self, plan, given):
        self.gpus = plan["gpus"]
        self.memory = given
        self.signals = Counter()  # by type, sender, receiver and number
        self.values = {
            (gpu, i): each["init_value"]
            for gpu, of in enumerate(self.gpus)
            for i, each in enumerate(of["semaphores"])
        }
        self.ends = [ends_of(gpu) for gpu in self.gpus]

    def channels(self, gpu, block, operation):
        """The type, the peer and the number of each channel of an operation."""
        kind = operation["channel_type"]
        (ids,) = [c["channel_ids"] for c in block["channels"]]
        return [self.ends[gpu][kind, ids[i]] for i in operation["channel_ids"]]

    def can(self, gpu, block, operation):
        """Whether an operation can happen now."""
        if operation["name"] in ("wait", "rlxwait"):
            ends = self.channels(gpu, block, operation)
            return all(self.signals[kind, q, gpu, k] for kind, q, k in ends)
        if operation["name"] == "sem_acquire":
            return all(self.values[gpu, i] > 0 for i in operation["semaphore_ids"])
        return True

    def perform(self, gpu, block, operation):
        """Let an operation happen."""
        name = operation["name"]
        if name in ("put", "pwsf", "copy"):
            self.move(gpu, block, operation)
        elif name == "re":
            self.reduce(gpu, block, operation)
        if name in ("signal", "rlxsignal", "pwsf"):
            for kind, peer, k in self.channels(gpu, block, operation):
                self.signals[kind, gpu, peer, k] += 1
        elif name in ("wait", "rlxwait"):
            for kind, peer, k in self.channels(gpu, block, operation):
                self.signals[kind, peer, gpu, k] -= 1
        for i in operation.get("semaphore_ids", ()):
            self.values[gpu, i] += 1 if name == "sem_release" else -1

    def places(self, gpu, block, span):
        """The chunks of a span."""
        kind = span.get("type")
        if "buffer_id" in span:
            (ids,) = [r["remote_buffer_ids"] for r in block["remote_buffer_refs"]]
            remote = self.gpus[gpu]["remote_buffers"][ids[span["buffer_id"]]]
            gpu, kind = remote["rank"], remote["type"]
        return [(gpu, kind, span["index"] + i) for i in range(span["size"])]

    def move(self, gpu, block, operation):
        (source,), (target,) = operation["src_buff"], operation["dst_buff"]
        values = [self.memory[p] for p in self.places(gpu, block, source)]
        self.memory.update(zip(self.places(gpu, block, target), values, strict=True))

    def reduce(self, gpu, block, operation):
        spans = [self.places(gpu, block, span) for span in operation["src_buff"]]
        (target,) = operation["dst_buff"]
        places = self.places(gpu, block, target)
        for place, *terms in zip(places, *spans, strict=True):
            homes = {self.memory[term][0] for term in terms}
            ranks = sorted(r for term in terms for r in self.memory[term][1])
            self.memory[place] = (homes.pop() if len(homes) == 1 else None, ranks)


def ends_of(gpu):
    """The type, the peer and the number of each channel of a GPU."""
    found, seen = {}, Counter()
    for group in gpu["channels"]:
        kind = group["channel_type"]
        for i, peer in enumerate(group["connected_to"]):
            found[kind, i] = kind, peer, seen[kind, peer]
            seen[kind, peer] += 1
    return found


class Aliased(dict):
    """Memory of a call in place: names of the same chunk are one."""

    def __init__(self, alias):
        super().__init__()
        self.alias = alias

    def __getitem__(self, place):
        return super().__getitem__(self.alias(place))

    def __setitem__(self, place, value):
        super().__setitem__(self.alias(place), value)

    def update(self, pairs):
        for place, value in pairs:
            self[place] = value


def run(text, dice):
    """The homes and contributions of each GPU's result; None if it deadlocks."""
    plan = json.loads(text)
    name = COLLECTIVES.get(plan["collective"], plan["collective"])
    machine = Machine(plan, memory_of(plan, name))
    left = defaultdict(list)
    for gpu, of in enumerate(plan["gpus"]):
        for block in of["threadblocks"]:
            left[gpu, block["id"]] = [(gpu, block, op) for op in block["ops"]][::-1]
    while any(left.values()):
        able = [ops for ops in left.values() if ops and machine.can(*ops[-1])]
        if not able:
            return None
        machine.perform(*dice.choice(able).pop())
    return [result(machine.memory, plan, name, gpu) for gpu in range(len(plan["gpus"]))]


def memory_of(plan, name):
    """The memory before a call: each rank's part of the input."""
    end = "output_chunks" if name == "reduce_scatter" else "input_chunks"
    each, size = plan["gpus"][0][end], len(plan["gpus"])

    def alias(place):
        gpu, buffer, number = place
        if plan["inplace"] and name == "allgather" and buffer == "i":
            return gpu, "o", gpu * each + number
        if plan["inplace"] and name != "allgather" and buffer == "o":
            return gpu, "i", number + (gpu * each if name == "reduce_scatter" else 0)
        return place

    memory = Aliased(alias)
    for rank, gpu in enumerate(plan["gpus"]):
        for k in range(gpu["input_chunks"]):
            memory[rank, "i", k] = home_of(name, size, each, rank, k), [rank]
    return memory


def home_of(name, size, each, rank, k):
    """The part of the whole buffer that chunk k of a rank's input holds."""
    if name == "alltoall":
        target, part = divmod(k, each // size)
        return rank * size + target, part
    return rank * each + k if name == "allgather" else k


def result(memory, plan, name, rank):
    """Whether each chunk of the output of a rank is right."""
    size, gpu = len(plan["gpus"]), plan["gpus"][rank]
    count, everyone = gpu["output_chunks"], [*range(size)]
    for k in range(count):
        home, ranks = memory[rank, "o", k]
        each = count // size
        wanted = {
            "allreduce": (k, everyone),
            "reduce_scatter": (rank * count + k, everyone),
            "allgather": (k, [k // each] if each else None),
            "alltoall": (
                (k // each * size + rank, k % each) if each else None,
                [k // each] if each else None,
            ),
        }[name]
        if (home, ranks) != wanted:
            return False
    return True
