"""Places where the processes of a job meet, as people name them.

``env://`` (the variables of torchrun), ``tcp://HOST:PORT``, ``file:///PATH`` of a
folder that all can reach, ``etcd://HOST:PORT/PREFIX``, or a store of their own.
"""

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from collalgo.base.foreign import package_of
from collalgo.bootstrap.connect import connect_at, connect_over
from collalgo.bootstrap.context import Context
from collalgo.bootstrap.foreign_stores import (
    EtcdPrefix,
    Folder,
    HorovodStore,
    KeyValueStore,
    TorchStore,
)
from collalgo.bootstrap.identity import identity, torchrun_keeps_a_store
from collalgo.bootstrap.join_arguments import JoinArguments
from collalgo.bootstrap.store import etcd
from collalgo.errors import BootstrapError


def connect_by_url(arguments: JoinArguments) -> Context:
    """Connect at the URL or the store that :func:`collalgo.init` was given.

    Raises
    ------
    ValueError
        If it is neither, or rank and size are not known.
    BootstrapError
        If the ranks do not find each other.
    """
    where = arguments.store
    if not isinstance(where, str):
        return connect_over(_board(where), arguments)
    url = urlsplit(where if "://" in where else f"tcp://{where}")
    if url.scheme == "env":
        return _by_environment(arguments)
    if url.scheme == "tcp" and url.netloc:
        return connect_at(url.netloc, arguments)
    return _on_removable(_removable(url, arguments), arguments)


def _removable(url: SplitResult, arguments: JoinArguments) -> "Folder | EtcdPrefix":
    """The store that a URL names for this job alone."""
    if url.scheme == "file" and url.path and not url.netloc:
        _ = arguments.position  # known before anything is made
        return Folder(Path(unquote(url.path)))
    if url.scheme == "etcd" and url.netloc and url.path.strip("/"):
        _ = arguments.position
        store = etcd.Etcd(_members(url), unquote(url.path))
        return EtcdPrefix(store, arguments.store)
    raise ValueError(
        f"init: {arguments.store!r} is no place to meet; pass env://, tcp://HOST:PORT, "
        "file:///PATH, etcd://HOST:PORT/PREFIX, or HOST:PORT"
    )


def _members(url: SplitResult) -> list[tuple[str, int]]:
    """Host and port of each member of etcd, with commas between them."""
    places = [urlsplit(f"//{place}") for place in url.netloc.split(",")]
    return [(place.hostname or "", place.port or etcd.PORT) for place in places]


def _board(store: Any) -> KeyValueStore:
    if package_of(store) == "torch":
        return TorchStore(store)
    if not callable(getattr(store, "set", None)) or not hasattr(store, "get"):
        raise TypeError(
            f"init: {type(store).__name__} is no store; pass one with "
            "set(key, value) and get(key, timeout)"
        )
    board: KeyValueStore = store
    return board


def _on_removable(board: Folder | EtcdPrefix, arguments: JoinArguments) -> Context:
    """Connect over a store of which nothing is to be left."""
    try:
        context = connect_over(board, arguments)
    except BaseException:
        board.take_back()
        raise
    if arguments.position[0] == 0:  # all have come, so all have read
        board.remove()
    return context


def _by_environment(arguments: JoinArguments) -> Context:
    """Meet as the variables of torchrun say, or of somebody who sets the same."""
    env = os.environ
    missing = [
        name
        for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        if name not in env
    ]
    if missing:
        raise BootstrapError(
            f"env:// needs the environment variables {', '.join(missing)}, which are "
            "not set; start the ranks by torchrun or collalgo run, or set them"
        )
    rank, size = identity({**env, "LOCAL_WORLD_SIZE": env["WORLD_SIZE"]})[:2]
    arguments = replace(arguments, rank=rank, size=size)
    if torchrun_keeps_a_store(env):
        return connect_over(_store_of_torchrun(arguments.timeout), arguments)
    return connect_at(f"{env['MASTER_ADDR']}:{env['MASTER_PORT']}", arguments)


def store_of_launcher(timeout: float) -> KeyValueStore:
    """The key-value store that torchrun or horovodrun keeps for its ranks."""
    env = os.environ
    if torchrun_keeps_a_store(env):
        return _store_of_torchrun(timeout)
    port = int(env["HOROVOD_GLOO_RENDEZVOUS_PORT"])
    return HorovodStore(env["HOROVOD_GLOO_RENDEZVOUS_ADDR"], port)


def _store_of_torchrun(timeout: float) -> TorchStore:
    """The store that torchrun keeps for its ranks."""
    from torch.distributed import PrefixStore, TCPStore

    env = os.environ
    store = TCPStore(
        env["MASTER_ADDR"],
        int(env["MASTER_PORT"]),
        is_master=False,
        timeout=timedelta(seconds=timeout),
    )
    attempt = env.get("TORCHELASTIC_RESTART_COUNT", "0")
    return TorchStore(PrefixStore(f"collalgo {attempt}", store))
