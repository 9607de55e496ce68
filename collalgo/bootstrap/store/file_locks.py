"""Whether the locks of a file system hold on all hosts that share it."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from collalgo.bootstrap.store.protocol import StoreError

#: Options of file systems by which locks (flock) hold on one host only: man 5 nfs, and
#: man 8 mount.lustre.
LOCAL_LOCKS: Mapping[str, set[str]] = {
    "nfs": {"nolock", "local_lock=flock", "local_lock=all"},
    "nfs4": {"nolock", "local_lock=flock", "local_lock=all"},
    "lustre": {"localflock"},
}

#: The mounts that this process sees; see man 5 proc.
MOUNTS = Path("/proc/self/mountinfo")


def refuse_local_locks(folder: Path) -> None:
    """Refuse a folder whose mount options make its locks local to a host.

    Raises
    ------
    StoreError
        If they do: two hosts would change the store at once.
    """
    device = folder.stat().st_dev
    with MOUNTS.open(errors="replace") as mounts:
        found = local_option(mounts, f"{os.major(device)}:{os.minor(device)}")
    if found:
        raise StoreError(
            f"{folder} is mounted with {found}, so its locks hold on this host only; "
            "mount it without, or use another rendezvous"
        )


def local_option(mounts: Iterable[str], device: str) -> str:
    """The option by which locks of a device are local; empty without one."""
    for line in mounts:
        mount, _, file_system = line.partition(" - ")
        fields, kinds = mount.split(), file_system.split()
        if len(fields) < 3 or len(kinds) < 3 or fields[2] != device:
            continue
        local = LOCAL_LOCKS.get(kinds[0], set()) & set(kinds[2].split(","))
        if local:
            return min(local)
    return ""
