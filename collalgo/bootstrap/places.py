"""Places where the processes of a job meet, as people name them.

``env://`` (the variables of torchrun), ``tcp://HOST:PORT``, ``file:///PATH`` of a
folder that all can reach, or a store of their own.
"""

import os
import shutil
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from collalgo.bootstrap.identity import identity
from collalgo.bootstrap.launched import Board, meet_at, meet_over
from collalgo.connection import Connection
from collalgo.errors import BootstrapError

#: Seconds between two looks into a folder.
LOOK = 0.01


class Folder:
    """A folder as a board: a file for each key, readable by its owner only.

    Raises
    ------
    BootstrapError
        If somebody else owns the folder, or others may write to it.
    """

    def __init__(self, path: Path):
        self._path = path
        self._written: list[Path] = []
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = path.stat()
        except OSError as error:
            raise BootstrapError(f"cannot meet in {path} ({error})") from None
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise BootstrapError(
                f"{path} must belong to the user of this process, and nobody else may "
                "write to it; choose a folder that does not exist yet"
            )

    def _file(self, key: str) -> Path:
        return self._path / key.replace("/", "-")

    def set(self, key: str, value: bytes) -> None:
        """Give a key a value; it must not have one."""
        file = self._file(key)
        partial = file.with_suffix(f".{os.getpid()}")
        partial.touch(mode=0o600)
        partial.write_bytes(value)
        try:
            os.link(partial, file)  # all at once, and not over another
        except FileExistsError:
            raise BootstrapError(
                f"another job has met in {self._path}, or the same rank twice ({key}); "
                "choose a folder that does not exist yet, or remove it"
            ) from None
        finally:
            partial.unlink()
        self._written.append(file)

    def get(self, key: str, timeout: float) -> bytes:
        """The value of a key, as soon as it has one."""
        deadline = time.monotonic() + timeout
        while True:
            with suppress(FileNotFoundError):
                return self._file(key).read_bytes()
            if time.monotonic() > deadline:
                raise BootstrapError(
                    f"nobody has written {self._file(key)} in {timeout:g} s; see "
                    "whether all ranks were started with this folder"
                )
            time.sleep(LOOK)

    def remove(self) -> None:
        """Remove all that is there."""
        shutil.rmtree(self._path, ignore_errors=True)

    def take_back(self) -> None:
        """Remove what this process has written."""
        with suppress(OSError):
            while self._written:
                self._written.pop().unlink()
            self._path.rmdir()


class TorchBoard:
    """A store of torch as a board."""

    def __init__(self, store: Any):
        self._store = store

    def set(self, key: str, value: bytes) -> None:
        """Give a key a value."""
        self._store.set(f"collalgo/{key}", value)

    def get(self, key: str, timeout: float) -> bytes:
        """The value of a key, as soon as it has one."""
        self._store.wait([f"collalgo/{key}"], timedelta(seconds=timeout))
        return bytes(self._store.get(f"collalgo/{key}"))


def meet_in(
    where: str | Any,
    secret: str | None,
    rank: int | None,
    size: int | None,
    timeout: float,
) -> Connection:
    """Meet at a place that :func:`collalgo.init` was given.

    Raises
    ------
    ValueError
        If that is no place, or rank and size are not known.
    BootstrapError
        If the ranks do not find each other.
    """
    if not isinstance(where, str):
        return meet_over(_board(where), *_known(rank, size), timeout)
    url = urlsplit(where if "://" in where else f"tcp://{where}")
    if url.scheme == "env":
        return _by_environment(secret, timeout)
    if url.scheme == "tcp" and url.netloc:
        return meet_at(url.netloc, secret, *_known(rank, size), timeout)
    if url.scheme == "file" and url.path and not url.netloc:
        return _in_folder(Path(unquote(url.path)), *_known(rank, size), timeout)
    raise ValueError(
        f"init: {where!r} is no place to meet; pass env://, tcp://HOST:PORT, "
        "file:///PATH, or HOST:PORT"
    )


def _known(rank: int | None, size: int | None) -> tuple[int, int]:
    if rank is None or size is None or not 0 <= rank < size:
        raise ValueError(
            f"init: with a place to meet, pass rank and size too, 0 <= rank < size; "
            f"these are rank {rank} and size {size}"
        )
    return rank, size


def _board(store: Any) -> Board:
    if type(store).__module__.startswith("torch"):
        return TorchBoard(store)
    if not callable(getattr(store, "set", None)) or not hasattr(store, "get"):
        raise TypeError(
            f"init: a {type(store).__name__} is no store; pass one with "
            "set(key, value) and get(key, timeout)"
        )
    board: Board = store
    return board


def _in_folder(path: Path, rank: int, size: int, timeout: float) -> Connection:
    folder = Folder(path)
    try:
        connection = meet_over(folder, rank, size, timeout)
    except BaseException:
        folder.take_back()
        raise
    if rank == 0:  # all have come, so all have read
        folder.remove()
    return connection


def _by_environment(secret: str | None, timeout: float) -> Connection:
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
    if env.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return meet_over(TorchBoard(_store_of_torchrun(timeout)), rank, size, timeout)
    place = f"{env['MASTER_ADDR']}:{env['MASTER_PORT']}"
    return meet_at(place, secret, rank, size, timeout)


def _store_of_torchrun(timeout: float) -> Any:
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
    return PrefixStore(f"collalgo {attempt}", store)


def meets_by_torchrun() -> bool:
    """Whether torchrun has started ranks on several hosts: they need its store."""
    env = os.environ
    return (
        "COLLALGO_STORE" not in env
        and "COLLALGO_JOB" not in env
        and env.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        and env.get("LOCAL_WORLD_SIZE") != env.get("WORLD_SIZE")
    )
