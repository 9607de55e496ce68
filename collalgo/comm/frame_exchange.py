"""The exchange of frames of objects, and of their lengths before."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.comm.composed import run_first
from collalgo._kernels.engine.transport.transport import PART_OF_LAST, WHOLE_CALL
from collalgo.base.arguments import wrong_type
from collalgo.base.integers import rank_of
from collalgo.comm.current import runner_of
from collalgo.comm.error_of_rank import error_of_rank
from collalgo.comm.object_frames import Frame, Frames, frame_at, frames_of
from collalgo.engine.call import Call
from collalgo.errors import InvalidElsewhere

if TYPE_CHECKING:
    from collalgo.comm.runner import Runner

#: The number of frames that a rank reports if its objects cannot be passed.
UNPICKLED = -1

#: Sequences whose elements are no objects of their own.
TEXTS = str | bytes | bytearray | memoryview


def invalid_elsewhere(
    runner: "Runner", call: str, rank: int, what: str
) -> InvalidElsewhere:
    """The error of a call in which another rank has passed what is invalid."""
    text = f"rank {rank} passed {what}; see its own error"
    return error_of_rank(InvalidElsewhere, runner, call, rank, text)


class FrameExchange:
    """The frames of the objects of this rank, and the lengths of those of the others.

    Parameters
    ----------
    comm
        The communicator, as the user passed it.
    call
        The name of the call, for errors.
    timeout
        Seconds of each exchange.
    per_rank
        Whether a rank passes an object for every rank, not one.

    Attributes
    ----------
    rank : int
        This rank.
    messages : list
        The frames of each object of this rank, none if it passes no objects.
    numbers : ndarray
        The numbers of frames of the objects of all ranks: a row for each rank.
    """

    def __init__(
        self, comm: Any, call: str, timeout: float | None, *, per_rank: bool = False
    ):
        self._runner = cast("Runner", runner_of(comm))
        self._call, self._timeout = call, timeout
        self._failure: Exception | None = None
        self._options: dict[str, Any] = {"counted": PART_OF_LAST, "timeout": timeout}
        self.rank, size = self._runner.rank, self._runner.size
        self._width = size if per_rank else 1
        self.messages: list[Frames] = [[]] * self._width
        self.numbers = np.empty((size, 0), np.int64)

    def root_of(self, root: int) -> int:
        """The rank that an argument names as the root, after a check that it exists."""
        return rank_of(root, "root", self._call, self._runner.size)

    def pickle_objects(self, objects: Sequence[Any] | None) -> None:
        """Pickle my objects, whose numbers of frames all ranks get; None for none."""
        self._mine = np.zeros(self._width, np.int64)
        try:
            if objects is not None:
                self.messages = [frames_of(obj) for obj in self._checked(objects)]
                self._mine[:] = [len(frames) for frames in self.messages]
        except Exception as error:
            self._failure, self._mine[:] = error, UNPICKLED

    def begin(self, rest: Callable[[], Any]) -> bool:
        """Exchange the numbers of frames; in the background also call ``rest`` then.

        Returns whether the call is made in the background.
        """
        runner, mine = self._runner, self._mine
        waiting = runner.waiting(self._timeout)
        program = runner.programs.exchange_for(self._call, mine.nbytes, WHOLE_CALL)
        self.numbers = np.empty((runner.size, self._width), np.int64)
        in_background = run_first(
            runner, program, mine, self.numbers, waiting, self._call, rest
        )
        self._options["within_call"] = in_background
        return in_background

    def check(self) -> None:
        """Check that all ranks have passed objects as they should.

        Raises
        ------
        TypeError, ValueError, or an error of pickle
            If these are not the objects that this rank should pass, or one cannot be
            pickled.
        InvalidElsewhere
            If that is so on another rank.
        """
        if self._failure is not None:
            raise self._failure
        failed = np.flatnonzero(self.numbers.min(axis=1) == UNPICKLED)
        if len(failed):
            rank = int(failed[0])
            raise invalid_elsewhere(self._runner, self._call, rank, "invalid objects")

    def _checked(self, objects: Any) -> Sequence[Any]:
        """The objects, of which each has a place."""
        is_list = isinstance(objects, Sequence) and not isinstance(objects, TEXTS)
        if not (is_list or (isinstance(objects, np.ndarray) and objects.ndim)):
            advice = f"a list of {self._width} objects, one for each rank"
            raise wrong_type(self._call, "objects", objects, advice)
        if len(objects) != self._width:
            raise ValueError(
                f"{self._call}: got {len(objects)} objects for {self._width} ranks; "
                "pass one for each"
            )
        return cast("Sequence[Any]", objects)

    def lengths_of(self, root: int) -> NDArray[np.int64]:
        """The bytes of the frames of each message of a root, by place."""
        lengths = self._lengths(int(self.numbers[root].max()))
        self.move("broadcast", lengths, None if self.rank == root else lengths, root)
        return lengths

    def all_lengths(self) -> Iterator[NDArray[np.int64]]:
        """By place, the bytes of the frames there: a row for each rank.

        For objects for every rank, the lengths are exchanged place by place: both may
        be many.
        """
        mine = self._lengths(int(self.numbers.max()))
        if self._width == 1:
            found = self._of_all(mine[0])
            yield from found.T[:, :, np.newaxis]
            return
        for lengths in np.ascontiguousarray(mine.T):
            yield self._of_all(lengths)

    def _of_all(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self._runner.exchange(
            lengths, self._call, **self._options
        )
        return found

    def move(
        self,
        collective: str,
        source: NDArray[Any] | None,
        target: NDArray[Any] | None,
        root: int = 0,
        counts: Sequence[int] | None = None,
    ) -> None:
        """Make a collective call as a part of this one, on contiguous arrays."""
        like = target if source is None else source
        assert like is not None
        each = None if counts is None else tuple(counts)
        call = Call(collective, like.dtype, like.size, root=root, counts=each)
        self._runner.run_for(self._call, call, source, target, **self._options)

    def _lengths(self, most: int) -> NDArray[np.int64]:
        """The bytes of my frames by message and place, 0 after the last of each."""
        found = np.zeros((self._width, most), np.int64)
        for row, frames in zip(found, self.messages, strict=True):
            row[: len(frames)] = [len(frame) for frame in frames]
        return found

    def joined(self, place: int) -> Frame:
        """The frames of all my messages at a place, one after the other."""
        found = [frame_at(frames, place) for frames in self.messages]
        return np.concatenate(found) if len(found) > 1 else found[0]
