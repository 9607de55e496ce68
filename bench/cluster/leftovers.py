"""The end of what a killed command leaves: processes, namespaces, and folders."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

#: The variable by which the processes of a folder are found.
MARK = "CLUSTER_FOLDER"

#: Waits for the end of the command, which closes standard input. Then kills the
#: processes that have the folder in their environment, and those in the namespaces,
#: until no new ones come, and removes the namespaces and the folder.
SCRIPT = f"""
while read -r _; do :; done
folder=$1; shift
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    found=$(grep -slFz -- "{MARK}=$folder" /proc/[0-9]*/environ | cut -d / -f 3)
    for place; do found="$found $(ip netns pids "$place")"; done
    case $found in *[0-9]*) ;; *) break ;; esac
    kill -s KILL $found
    sleep 0.05
done
for place; do ip netns del "$place"; done
rm -rf -- "$folder"
"""


def marked(folder: Path) -> dict[str, str]:
    """The variables of processes that are to end with the guard of a folder."""
    return {MARK: str(folder)}


@contextmanager
def guard(folder: Path, *namespaces: str) -> Iterator[None]:
    """Remove a folder and namespaces, with their processes, if this process is killed.

    Whoever ends without being killed removes them itself.
    """
    process = subprocess.Popen(
        ["/bin/sh", "-c", SCRIPT, "sh", str(folder), *namespaces],
        env={name: value for name, value in os.environ.items() if name != MARK},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # the signals of a terminal are not for it
    )
    try:
        yield
    finally:
        process.kill()
        process.communicate()


@contextmanager
def guarded_folder(*namespaces: str) -> Iterator[Path]:
    """A temporary folder, which a guard removes if this process is killed."""
    with TemporaryDirectory(prefix="collalgo-") as name, guard(Path(name), *namespaces):
        yield Path(name)
