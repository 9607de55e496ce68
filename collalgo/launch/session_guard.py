"""A process that outlives a killed launcher, to kill the descendants of its ranks.

The kernel kills a rank with its launcher, but not the processes that the rank has
started, as of ``sh -c``. They are in the session of the rank, unless they have begun
one of their own.
"""

import subprocess
from contextlib import suppress

#: Reads sessions until the launcher has ended, which closes standard input. Then kills
#: the groups of their leaders, and all other processes of them until no new ones come.
#: Fields of the line after the name, which may hold blanks: state, parent, group,
#: session.
SCRIPT = """
all=' ' killed=' ' more=yes
while read -r one; do all="$all$one "; done
for one in $all; do kill -s KILL -- "-$one"; done
while [ $more ]; do
    more=
    for stat in /proc/[0-9]*/stat; do
        read -r line < "$stat" || continue
        process=${line%% *}
        set -- ${line##*) }
        case $all in *" $4 "*) ;; *) continue;; esac
        case $1$killed in [ZX]*|*" $process "*) continue;; esac
        kill -s KILL "$process"
        killed="$killed$process " more=yes
    done
done
"""


class SessionGuard:
    """Kills sessions as soon as this process ends without closing the guard."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def add(self, leader: int) -> None:
        """Guard the session of a process that is not reaped before the guard is closed.

        Its number would otherwise be free for another session.
        """
        if self._process is None:
            self._process = _start()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the guard was killed
            self._process.stdin.write(f"{leader}\n".encode())

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
