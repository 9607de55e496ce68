"""What ranks do under torch in the tests: a script for collalgo run or torchrun.

``script_under_torch.py DUTY...``, each a function of this file or of ``torch_*.py``.
"""

import copy
import gc
import json
import os
import signal
import sys
import tempfile
import time
from datetime import timedelta
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

sys.path.insert(0, str(Path(__file__).parents[2]))

import collalgo
from tests.support import (
    torch_background,
    torch_buckets,
    torch_collectives,
    torch_devices,
    torch_direct,
    torch_frameworks,
    torch_horovod,
    torch_odd_tensors,
    torch_training,
)
from tests.support.torch_values import values


def traces():
    """A trace has the calls of torch, at the user's lines, with the buckets of DDP."""
    path = f"{tempfile.gettempdir()}/collalgo-trace-{os.environ['MASTER_PORT']}.json"
    model = nn.Sequential(*[nn.Linear(300, 300) for _ in range(6)])
    model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.8)
    data = torch.ones(4, 300)
    with collalgo.trace(path, force=True):
        for _ in range(3):
            model(data).sum().backward()
        dist.all_reduce(torch.ones(3))
        dist.all_reduce(torch.ones(3), async_op=True).wait()
    if dist.get_rank() == 0:
        check_trace(Path(path), traces.__code__.co_firstlineno + 8)
        Path(path).unlink()


def check_trace(path, first):
    """Check the calls of rank 0, which are in three lines from the first on."""
    calls = [
        event for event in json.loads(path.read_text())["traceEvents"]
        if "collective" in event.get("args", {}) and event["tid"] == 0
    ]  # fmt: skip
    names = [call["args"].get("name", "") for call in calls]
    assert names.count("bucket 0") == 3, names
    assert names.count("bucket 1") >= 2, names
    assert names[-2:] == ["", ""], names
    lines = [int(call["args"]["place"].rpartition(":")[2]) for call in calls]
    assert all(call["args"]["place"].startswith(f"{__file__}:") for call in calls)
    assert set(lines) == {first, first + 1, first + 2}, lines


def two_hosts():
    from collalgo.comm.communicator import Communicator

    comm = dist.group.WORLD.comm
    assert isinstance(comm, Communicator)
    assert comm.hosts == (0, *[1] * (comm.size - 1))


def one_dies():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # of the launcher, which is in haste
    models = [nn.parallel.DistributedDataParallel(nn.Linear(3, 3)) for _ in range(2)]
    models[1].register_comm_hook(None, default_hooks.allreduce_hook)
    dist.barrier()
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    for model in models:
        step_without_a_rank(model)
    work = dist.all_reduce(values(0), async_op=True)
    try:
        work.wait()
    except Exception as error:
        print(type(error).__name__, error, flush=True)
        time.sleep(0.2)
        os._exit(0)
    raise AssertionError("nobody has died")


def step_without_a_rank(model):
    """The C++ of DDP takes gradients out of what a call gives."""
    try:
        model(torch.ones(2, 3)).sum().backward()
    except Exception as error:
        assert "rank 1 is gone" in str(error), error
    else:
        raise AssertionError("no error")


def ends_and_begins_again():
    """A group ends with a call under way, and another one begins on the same store."""
    x, size = torch.ones(1 << 20), dist.get_world_size()
    part = dist.new_group(range(size))
    works = [dist.all_reduce(x, group=part, async_op=True) for _ in range(2)]
    dist.destroy_process_group(part)
    x, work = torch.ones(1 << 20), dist.all_reduce(x, async_op=True)
    dist.destroy_process_group()
    for each in (*works, work):
        each.wait()
    initialise()
    dist.all_reduce(x)
    assert x[0] == size


def step_of_state(model, optimizer, tensors):
    optimizer.zero_grad()
    model(torch.ones(4, 3)).sum().backward()
    optimizer.step()
    tensors[0] += 1


def elastic_state():
    """Modules, optimizers and tensors go back to a commit, and to a checkpoint."""
    from collalgo import elastic

    model, comm = nn.Linear(3, 2), dist.group.WORLD.comm
    optimizer = torch.optim.Adam(model.parameters())
    tensors = [torch.ones(2), torch.full((3,), 0.5, dtype=torch.bfloat16)]
    state = elastic.State(model=model, optimizer=optimizer, tensors=tensors)
    step = partial(step_of_state, model, optimizer, tensors)
    step()
    for _ in range(comm.rank):  # the last rank is the most advanced
        state.commit()
    state.sync(comm)
    state.verify(comm)
    assert state.revision == comm.size - 1
    right = copy.deepcopy(model.state_dict())
    step()
    state.restore()
    check_checkpoint(state, right, step)
    quantised = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)
    for odd in (torch.eye(2).to_sparse(), torch.empty(2, device="meta"), quantised):
        check_refused(odd)


def check_refused(odd):
    """Check that a tensor without elements of its own cannot be a state."""
    from collalgo import elastic

    try:
        elastic.State(x=[odd])
    except TypeError as error:
        assert str(error).startswith("state.x[0] is a "), error
        return
    raise AssertionError(odd)


def check_checkpoint(state, right, step):
    """Check that a state comes back from a file, after a step from there as well."""
    with tempfile.TemporaryDirectory() as folder:
        state.checkpoint(Path(folder, "state"))
        for _ in range(2):
            assert all(
                map(torch.equal, state.model.state_dict().values(), right.values())
            )
            assert state.tensors[0].tolist() == [2, 2]
            step()
            state.load(Path(folder, "state"))


def elastic_sums():
    """The order of a sum is that of its shards, whatever the ranks."""
    from collalgo import elastic

    comm = dist.group.WORLD.comm
    parts = [torch.full((2,), 0.1 * k) for k in range(4)]
    found = elastic.sum_shards(comm, 4, lambda k: [parts[k]])
    assert torch.equal(found[0], (parts[0] + parts[1]) + (parts[2] + parts[3]))
    parts = [each.to(torch.bfloat16).requires_grad_() for each in parts]
    found = elastic.sum_shards(comm, 4, lambda k: parts[k])
    assert torch.equal(found, (parts[0] + parts[1]) + (parts[2] + parts[3]))


def duty_of(name):
    modules = (
        sys.modules[__name__], torch_background, torch_buckets, torch_collectives,
        torch_devices, torch_direct, torch_frameworks, torch_horovod, torch_odd_tensors,
        torch_training,
    )  # fmt: skip
    return next(getattr(each, name) for each in modules if hasattr(each, name))


def initialise():
    backend = os.environ.get("TORCH_BACKEND", "collalgo")
    dist.init_process_group(backend, timeout=timedelta(seconds=60))


def main():
    initialise()
    rank = dist.get_rank()
    for duty in sys.argv[1:]:
        duty_of(duty)()
        print(f"{duty}: right {rank};", flush=True)
    dist.destroy_process_group()
    gc.collect()  # models refer to themselves
    assert not any("collalgo" in name for name in os.listdir("/dev/shm"))
    assert not torch_buckets.maps_of_heaps()
    print(f"over: right {rank};", flush=True)


main()
