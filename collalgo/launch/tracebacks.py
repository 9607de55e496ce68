"""Tracebacks in the output of ranks: whole, and equal ones of several ranks once."""

import re
import time

#: The first line of a traceback.
HEADER = b"Traceback (most recent call last):"

#: Lines, and an unfinished one at the end.
LINES = re.compile(rb"[^\n]*\n|[^\n]+")

#: A line with the prefix of its rank.
WITH_RANK = re.compile(rb"\[(\d+)\] ")

#: Seconds that the lines of a traceback wait for its last one.
HOLD_SECONDS = 0.5

#: Seconds in which an equal traceback of another rank is a repetition.
SAME_SECONDS = 10.0

#: The most lines of a traceback that is held; a longer one is forwarded as it arrives.
MOST_LINES = 2000

#: The most tracebacks that are kept.
MOST_SHOWN = 64


class ShownTracebacks:
    """The tracebacks that were shown last, of all ranks."""

    def __init__(self) -> None:
        self._shown: dict[bytes, tuple[float, list[int]]] = {}

    def before(self, text: bytes, rank: int) -> int | None:
        """The rank whose equal traceback was shown; None if this one is to be shown.

        A rank that repeats its own is shown again.
        """
        now = time.monotonic()
        since, ranks = self._shown.pop(text, (now, [rank]))
        if rank in ranks or now - since > SAME_SECONDS:
            since, ranks = now, []
        self._shown[text] = since, [*ranks, rank]
        if len(self._shown) > MOST_SHOWN:
            del self._shown[next(iter(self._shown))]
        return ranks[0] if ranks else None


class Tracebacks:
    """Keeps the lines of tracebacks in the output of a rank or an agent together.

    Parameters
    ----------
    shown
        What was shown of all outputs.
    rank
        The rank; None if each line begins with that of its rank.
    """

    def __init__(self, shown: ShownTracebacks, rank: int | None):
        self._shown, self._rank = shown, rank
        self._held: dict[int, list[bytes]] = {}

    @property
    def holds(self) -> bool:
        """Whether lines wait for the end of their traceback."""
        return bool(self._held)

    def take(self, data: bytes) -> bytes:
        """Take lines of output: those to be forwarded now."""
        if not self._held and HEADER not in data:
            return data
        return b"".join(self._take_line(line) for line in LINES.findall(data))

    def release(self) -> bytes:
        """The lines that were held, as they are."""
        held, self._held = self._held, {}
        return b"".join(line for lines in held.values() for line in lines)

    def _take_line(self, line: bytes) -> bytes:
        rank, prefix = self._origin(line)
        text = line[len(prefix) :]
        if rank not in self._held:
            if text.rstrip() != HEADER:
                return line
            self._held[rank] = []
        held = self._held[rank]
        held.append(line)
        if len(held) > MOST_LINES:
            return b"".join(self._held.pop(rank))
        is_last = text[:1].strip() and len(held) > 1
        return self._end(rank, prefix) if is_last else b""

    def _origin(self, line: bytes) -> tuple[int, bytes]:
        """The rank of a line, and its prefix in the line."""
        if self._rank is not None:
            return self._rank, b""
        found = WITH_RANK.match(line)
        return (int(found[1]), found[0]) if found else (-1, b"")

    def _end(self, rank: int, prefix: bytes) -> bytes:
        """A traceback that is complete, or the note that it was shown."""
        lines = self._held.pop(rank)
        first = self._shown.before(
            b"".join(each[len(prefix) :] for each in lines), rank
        )
        if first is None:
            return b"".join(lines)
        return prefix + b"(the same traceback as that of rank %d)\n" % first
