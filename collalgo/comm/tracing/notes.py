"""Notes on calls that an integration makes: the user's line, and a name.

The flight recorder itself knows only the line of the integration.
"""

from types import CodeType
from typing import NamedTuple
from weakref import WeakKeyDictionary

from collalgo._kernels.comm.recorder import Recorder


class CallNote(NamedTuple):
    """The place of a call in code, and its name, as of a bucket of gradients; or ""."""

    code: CodeType
    instruction: int
    name: str

    @property
    def place(self) -> str:
        """The file and the line."""
        lines = self.code.co_lines()
        found = (n for begin, end, n in lines if begin <= self.instruction < end)
        line = next(found, None) or self.code.co_firstlineno
        return f"{self.code.co_filename}:{line}"


_notes: "WeakKeyDictionary[Recorder, dict[int, CallNote]]" = WeakKeyDictionary()


def remember(recorder: Recorder, numbers: range, note: CallNote) -> None:
    """Note something on calls, for as long as the recorder keeps them."""
    known = _notes.setdefault(recorder, {})
    for number in numbers:
        known[number] = note
    if len(known) > 2 * recorder.capacity:
        for number in list(known)[: -recorder.capacity]:
            del known[number]


def note_on(recorder: Recorder, number: int) -> CallNote | None:
    """The note on a call, or None."""
    return _notes.get(recorder, {}).get(number)
