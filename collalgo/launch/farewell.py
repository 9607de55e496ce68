"""The last line of an agent: that its exit code is that of a rank.

Without it, exit code 255 is that of a remote shell that has lost its host, and
:data:`~collalgo.launch.supervision.PEER_FAILED` that of ranks that others have failed;
a rank may end with the same numbers.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import IO

from collalgo.launch.log_files import STDOUT
from collalgo.launch.output import Sinks, Stream
from collalgo.launch.supervision import RankFailure, Supervision


def farewell(word: str) -> str:
    """The line of an agent, with a word that only it and the launcher know."""
    return f"\x1ethe exit code of this agent is that of a rank {word}"


def noting(supervision: Supervision, noted: list[RankFailure]) -> Supervision:
    """The same supervision, which also notes the failures that it tells."""

    def tell(failures: Sequence[RankFailure], others: bool) -> None:
        noted.extend(failures)
        supervision.tell(failures, others)

    return replace(supervision, tell=tell)


class AgentOutput(Stream):
    """The output of an agent: at first its answers, then the output of its ranks.

    Parameters
    ----------
    pipe, sinks
        As for :class:`~.output.Stream`.

    Attributes
    ----------
    has_farewell : bool
        Whether the last line has come, which is not forwarded.
    """

    def __init__(self, pipe: IO[bytes], sinks: Sinks):
        super().__init__(
            pipe, sinks.out, log=sinks.log(None, STDOUT), stamp=sinks.stamp
        )
        self.has_farewell = False
        self._line = b""  # the last line
        self._held = b""  # what may be its beginning

    def expect(self, word: str) -> None:
        """Expect the last line with this word."""
        self._line = f"{farewell(word)}\n".encode()

    def _take(self, data: bytes) -> None:
        before, found, after = self._cut(self._held + data)
        self.has_farewell |= bool(found)
        text, self._held = before + after, b""
        if data:
            text, self._held = self._parted(text)
        if text:
            super()._take(text)
        if not data:
            super()._take(b"")

    def _cut(self, text: bytes) -> tuple[bytes, bytes, bytes]:
        """What is before the last line, the line, and what is after it."""
        return text.partition(self._line) if self._line else (text, b"", b"")

    def _parted(self, text: bytes) -> tuple[bytes, bytes]:
        """Some output without the beginning of the last line at its end, and that."""
        lengths = range(min(len(self._line) - 1, len(text)), 0, -1)
        ends = (n for n in lengths if text.endswith(self._line[:n]))
        end = len(text) - next(ends, 0)
        return text[:end], text[end:]
