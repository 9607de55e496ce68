"""A process that outlives a killed launcher, to kill what its ranks had started.

The kernel kills a rank with its launcher, but not the processes that the rank has
started, as of ``sh -c``. They are in the process group of the rank.
"""

import subprocess
from contextlib import suppress

#: Reads process groups until the launcher has ended, which closes standard input.
SCRIPT = 'all=; while read -r one; do all="$all -$one"; done; kill -s KILL -- $all'


class GroupGuard:
    """Kills process groups as soon as this process ends without closing the guard."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def add(self, group: int) -> None:
        """Guard the group of a process that is not reaped before the guard is closed.

        Its number would otherwise be free for another group.
        """
        if self._process is None:
            self._process = _start()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the guard was killed
            self._process.stdin.write(f"{group}\n".encode())

    def close(self) -> None:
        """End without killing anything."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdin is not None
            self._process.stdin.close()


def _start() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        ["/bin/sh", "-c", SCRIPT],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # the signals of a terminal are not for it
    )
