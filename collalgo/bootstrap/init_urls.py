"""The URLs and stores by which ``init`` lets the processes of a job connect.

``env://`` (the variables of torchrun), ``tcp://HOST:PORT``, ``file:///PATH`` of a
folder that all can reach, ``etcd://HOST:PORT/PREFIX``, or a store of their own.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote

from collalgo.base.environment import SECRET
from collalgo.base.foreign import package_of
from collalgo.bootstrap.connect import connect_over
from collalgo.bootstrap.context import Context
from collalgo.bootstrap.exchange import SizesDiffer
from collalgo.bootstrap.folder import Folder
from collalgo.bootstrap.foreign_stores import HorovodStore, SharedPrefix, TorchStore
from collalgo.bootstrap.identity import identity, torchrun_keeps_a_store
from collalgo.bootstrap.interfaces import is_address, is_loopback
from collalgo.bootstrap.join_arguments import JoinArguments
from collalgo.bootstrap.launcher_variables import RESTART_COUNT, port_of
from collalgo.bootstrap.named_address import connect_at
from collalgo.bootstrap.rendezvous import HostRendezvous
from collalgo.bootstrap.store.etcd import Etcd
from collalgo.bootstrap.store.etcd_members import members_of, split_url
from collalgo.bootstrap.store.protocol import ExchangeStore
from collalgo.bootstrap.user_secret import user_secret
from collalgo.errors import BootstrapError

#: Seconds in which a process sees the value that another has written.
NOTICE_SECONDS = 1.0


def connect_by_url(arguments: JoinArguments) -> Context:
    """Connect according to the arguments of :func:`collalgo.init`.

    Raises
    ------
    ValueError
        If the URL has another scheme, or rank and size are missing.
    BootstrapError
        If the ranks cannot connect.
    """
    where = arguments.store
    if not isinstance(where, str):
        return connect_over(_store(where, arguments), arguments)
    url = split_url(where if "://" in where else f"tcp://{where}")
    if url.scheme == "env":
        return _by_environment(arguments)
    if url.scheme == "tcp" and is_address(url.netloc):
        return connect_at(url.netloc, arguments)
    return _over_temporary(_temporary(url, arguments), arguments)


def _temporary(url: SplitResult, arguments: JoinArguments) -> "Folder | SharedPrefix":
    """The store that a URL names, which is empty after all have connected."""
    path = unquote(url.path)
    if url.scheme == "file" and path and not url.netloc and "\0" not in path:
        _ = arguments.position  # checked before anything is created
        return Folder(Path(path))
    if url.scheme == "etcd" and url.netloc and path.strip("/"):
        _ = arguments.position
        return SharedPrefix(Etcd(members_of(url.netloc), path), arguments.store)
    raise ValueError(
        f"init: {arguments.store!r} is not a rendezvous URL; pass env://, "
        "tcp://HOST:PORT, file:///PATH, etcd://HOST:PORT/PREFIX, or HOST:PORT"
    )


def _store(store: Any, arguments: JoinArguments) -> ExchangeStore:
    if package_of(store) == "torch":
        return TorchStore(store, arguments.position[0])
    if not callable(getattr(store, "set", None)) or not hasattr(store, "get"):
        raise TypeError(
            f"init: {type(store).__name__} is not a store; pass one with "
            "set(key, value) and get(key, timeout)"
        )
    ours: ExchangeStore = store
    return ours


def _over_temporary(
    store: "Folder | SharedPrefix", arguments: JoinArguments
) -> Context:
    """Connect over a store, and remove the keys of the ranks."""
    try:
        context = connect_over(store, arguments)
    except BaseException as error:
        if isinstance(error, SizesDiffer):  # which the other process has to see, too
            time.sleep(NOTICE_SECONDS)
        store.take_back()
        raise
    else:
        if arguments.position[0] == 0:  # all ranks have connected, so all have read
            store.remove()
        return context
    finally:
        store.close()


def _check_variables(env: Mapping[str, str]) -> None:
    needed = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    missing = [name for name in needed if not env.get(name)]
    if missing:
        raise BootstrapError(
            f"env:// needs the environment variables {', '.join(missing)}, which are "
            "not set; start the ranks by torchrun or collalgo run, or set them"
        )


def _by_environment(arguments: JoinArguments) -> Context:
    """Connect by the variables of torchrun, set by any launcher."""
    env = os.environ
    _check_variables(env)
    port_of(os.environ, "MASTER_PORT")
    rank, size = identity({**env, "LOCAL_WORLD_SIZE": env["WORLD_SIZE"]})[:2]
    arguments = replace(arguments, rank=rank, size=size)
    if torchrun_keeps_a_store(env):
        return connect_over(_store_of_torchrun(arguments), arguments)
    where = f"{env['MASTER_ADDR']}:{env['MASTER_PORT']}"
    if arguments.secret is not None or SECRET.given():
        return connect_at(where, arguments)
    if is_loopback(env["MASTER_ADDR"]) or env.get("LOCAL_WORLD_SIZE") == str(size):
        rendezvous = HostRendezvous(f"env://{where} {user_secret().hex()}")
        return rendezvous.connect("", rank, range(size), arguments.timeout)
    raise BootstrapError(
        f"rank {rank} has no secret of the job, which env:// needs as the ranks may be "
        f"on several hosts (MASTER_ADDR={env['MASTER_ADDR']}); pass secret= or set "
        "COLLALGO_SECRET (hexadecimal digits) to the same on all ranks, or on one host "
        "set MASTER_ADDR=localhost",
        rank=rank,
    )


def store_of_launcher(arguments: JoinArguments) -> ExchangeStore:
    """The key-value store that torchrun or horovodrun keeps for its ranks."""
    env = os.environ
    if torchrun_keeps_a_store(env):
        return _store_of_torchrun(arguments)
    port = port_of(env, "HOROVOD_GLOO_RENDEZVOUS_PORT")
    return HorovodStore(env["HOROVOD_GLOO_RENDEZVOUS_ADDR"], port)


def _store_of_torchrun(arguments: JoinArguments) -> TorchStore:
    """The store that torchrun keeps for its ranks."""
    from torch.distributed import PrefixStore, TCPStore

    env = os.environ
    store = TCPStore(
        env["MASTER_ADDR"],
        port_of(os.environ, "MASTER_PORT"),
        is_master=False,
        timeout=timedelta(seconds=arguments.timeout),
    )
    attempt = env.get(RESTART_COUNT, "0")
    below = PrefixStore(f"collalgo {attempt}", store)
    return TorchStore(below, arguments.position[0])
