"""The names of Horovod that are absent here, with what to use instead."""

_INSTEAD = {
    "ProcessSet": "use a group of the library: comm.group(ranks)",
    "add_process_set": "use a group of the library: comm.group(ranks)",
    "remove_process_set": "use a group of the library: comm.group(ranks)",
    "global_process_set": "leave the argument out",
    "SyncBatchNorm": "use torch.nn.SyncBatchNorm over init_process_group('collalgo')",
    "start_timeline": "use collalgo.trace(FILE)",
    "stop_timeline": "use collalgo.trace(FILE) as a context manager",
    "sparse_allreduce_async": "pass sparse_as_dense=True to DistributedOptimizer",
    "run": "use collalgo.run(function, hosts=...)",
}


def reason_of_absence(name: str) -> str:
    """The text of the error for an absent name."""
    advice = _INSTEAD.get(name)
    known = f"; {advice}" if advice else ""
    return f"collalgo.integrations.horovod has no {name!r}{known}"
