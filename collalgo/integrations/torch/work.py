"""What torch waits for."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from threading import Lock
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from collalgo._kernels.comm.work import Work
from collalgo.comm.point_to_point.message import Message


def seconds_of(timeout: timedelta) -> float | None:
    """Seconds as collalgo has them; torch says zero or less to leave them to us."""
    seconds = timeout.total_seconds()
    return seconds if seconds > 0 else None


class GroupWork(dist.Work):
    """What torch waits for: some calls, and what is to be done after them.

    Of tensors on a GPU the current stream waits, as torch has it; the host goes on.

    Parameters
    ----------
    works
        The calls that go on in the background, in their order.
    tensors
        What they write.
    finish
        Called once when they have ended well.
    gpu
        The device that they are on, if it is a GPU.
    """

    def __init__(
        self,
        works: Sequence[Work | Message],
        tensors: list[Tensor],
        finish: Sequence[Callable[[], None]] = (),
        gpu: torch.device | None = None,
    ):
        super().__init__()
        self.works = works
        self.tensors = tensors
        self.finish = list(finish)
        self._gpu = gpu
        self._finishing = Lock()

    @classmethod
    def of(cls, parts: Sequence["GroupWork"]) -> "GroupWork":
        """Several as one."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            [work for part in parts for work in part.works],
            [tensor for part in parts for tensor in part.tensors],
            [part._finish for part in parts],
            next((part._gpu for part in parts if part._gpu is not None), None),
        )

    def _finish(self) -> None:
        # Who waits and who is told by the future come at the same time: neither may
        # go on before the results are in place.
        with self._finishing:
            while self.finish:
                self.finish.pop(0)()

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        for work in self.works:
            if self._gpu is None:
                work.wait(seconds_of(timeout))
            else:
                work.wait_stream(torch.cuda.current_stream(self._gpu))
        self._finish()
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return all(work.done() for work in self.works)

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        errors = (work.exception() for work in self.works if work.done())
        return next((error for error in errors if error is not None), None)

    def result(self) -> list[Tensor]:
        self.wait()
        return self.tensors

    def _source_rank(self) -> int:
        """Who has sent what was received from any rank, as torch asks for it."""
        message = self.works[0]
        assert isinstance(message, Message)
        assert message.source is not None
        return message.source

    def get_future(self) -> Any:
        future: Any
        if self._gpu is None:
            future = HelpedFuture(self.works)
        else:
            future = torch.futures.Future(devices=[self._gpu])
        last = Last(len(self.works), lambda: self._tell(future))
        for work in self.works:
            work.add_done_callback(last.has_ended)
        if not self.works:
            self._tell(future)
        return future

    def _tell(self, future: Any) -> None:
        """Let a future have the results, now that the calls have ended."""
        error = self.exception()
        if error is not None:
            future.set_exception(error)
            return
        with self._beside():
            self.wait()
            future.set_result(self.tensors)  # of what the current stream has

    def _beside(self) -> AbstractContextManager[object]:
        """Let a stream be the current one for which nobody else waits."""
        if self._gpu is None:
            return nullcontext()
        beside: AbstractContextManager[object] = torch.cuda.stream(
            torch.cuda.Stream(self._gpu)
        )
        return beside


class HelpedFuture(torch.futures.Future):
    """A future whose waiter lends a hand with the calls that it is of."""

    def __init__(self, works: Sequence[Work | Message]):
        super().__init__()
        self._works = works

    def wait(self) -> Any:
        for work in self._works:
            work.exception()
        return super().wait()

    def then(self, callback: Callable[[Any], Any]) -> Any:
        """As of other futures; who waits for what follows lends a hand, too."""
        following = HelpedFuture(self._works)

        def go_on(done: Any) -> None:
            try:
                following.set_result(callback(done))
            except Exception as error:
                following.set_exception(error)

        self.add_done_callback(go_on)
        return following


class Last:
    """Calls something when the last of so many has ended, in whatever order."""

    def __init__(self, count: int, then: Callable[[], None]):
        self._left, self._then = count, then
        self._lock = Lock()

    def has_ended(self, _: object) -> None:
        with self._lock:
            self._left -= 1
            is_last = self._left == 0
        if is_last:
            self._then()
