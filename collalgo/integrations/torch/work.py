"""The work objects that torch waits for."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from threading import Lock
from time import monotonic
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor

from collalgo._kernels.comm.point_to_point.message import Message
from collalgo._kernels.comm.work import Work

#: The timeout of torch for none, which waits mostly get.
UNLIMITED = timedelta(0)


def seconds_of(timeout: timedelta) -> float | None:
    """A timeout in seconds; None for the zero or negative default of torch."""
    seconds = timeout.total_seconds()
    return seconds if seconds > 0 else None


class GroupWork(dist.Work):
    """The work of some calls, and the functions to run after them.

    For tensors on a GPU, ``wait`` blocks the current stream, not the host, as in torch.

    Parameters
    ----------
    works
        The calls in the background, in order.
    tensors
        The output tensors.
    finish
        Functions to call once after the calls succeed.
    gpu
        The device of the tensors, if it is a GPU.
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
        self.end_group: Callable[[], None] | None = None
        self._futures: list[HelpedFuture] = []  # of which a waiter completes each

    @classmethod
    def of(cls, parts: Sequence["GroupWork"]) -> "GroupWork":
        """Combine several works into one."""
        if len(parts) == 1:
            return parts[0]
        made = cls(
            [work for part in parts for work in part.works],
            [tensor for part in parts for tensor in part.tensors],
            [part._finish for part in parts],
            next((part._gpu for part in parts if part._gpu is not None), None),
        )
        made.end_group = next((part.end_group for part in parts), None)
        return made

    def _finish(self) -> None:
        # A waiter and a callback of the future may arrive concurrently; neither may
        # continue before the results are in place.
        with self._finishing:
            while self.finish:
                self.finish[0]()  # one that fails is tried again by the next wait
                del self.finish[0]

    def wait(self, timeout: timedelta = UNLIMITED) -> bool:
        self._await_calls(timeout)
        for future in self._futures:
            self._complete(future)
            future.await_completion()
        return True

    def _await_calls(self, timeout: timedelta = UNLIMITED) -> None:
        seconds = None if timeout is UNLIMITED else seconds_of(timeout)
        end = None if seconds is None else monotonic() + seconds
        for work in self.works:
            if self._gpu is None:
                work.wait(None if end is None else max(end - monotonic(), 0.0))
            else:
                work.wait_stream(torch.cuda.current_stream(self._gpu))
        if self.finish:
            self._finish()

    def synchronize(self) -> None:
        self.wait()

    block_current_stream = synchronize

    def abort(self) -> None:
        """End the call and its process group, on all ranks, unless the call has ended.

        A call that some ranks have made already cannot be taken back alone.
        """
        if not self.is_completed() and self.end_group is not None:
            self.end_group()

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
        """The sender of a receive from any rank; the name is torch's."""
        message = self.works[0]
        assert isinstance(message, Message)
        assert message.source is not None
        return message.source

    source_rank = _source_rank

    def get_future(self) -> Any:
        future: Any
        if self._gpu is None:
            future = HelpedFuture(self.works)
            self._futures.append(future)
        else:
            future = torch.futures.Future(devices=[self._gpu])
        count_down = CountDown(len(self.works), lambda: self._complete(future))
        for work in self.works:
            work.add_done_callback(count_down.one_done)
        if not self.works:
            self._complete(future)
        return future

    def _complete(self, future: Any) -> None:
        """Complete a future with the results or the error of the calls, once."""
        if isinstance(future, HelpedFuture) and not future.claim():
            return
        error = self.exception()
        if error is not None:
            fail(future, error)
            return
        try:
            with self._own_stream():
                self._await_calls()
                future.set_result(self.tensors)  # records the current stream
        except Exception as failure:
            fail(future, failure)

    def _own_stream(self) -> AbstractContextManager[object]:
        """Make a new stream the current one, so that no other work waits for it."""
        if self._gpu is None:
            return nullcontext()
        current: AbstractContextManager[object] = torch.cuda.stream(
            torch.cuda.Stream(self._gpu)
        )
        return current


class HelpedFuture(torch.futures.Future):
    """A future; a thread that waits for it helps to run its calls."""

    def __init__(self, works: Sequence[Work | Message]):
        super().__init__()
        self._works = works
        self._unclaimed = Lock()

    def claim(self) -> bool:
        """Whether the caller is the first, which completes it."""
        return self._unclaimed.acquire(blocking=False)

    def await_completion(self) -> None:
        """Wait for the thread that completes it."""
        if not self.done():
            super().wait()

    def wait(self) -> Any:
        for work in self._works:
            work.exception()
        return super().wait()

    def then(self, callback: Callable[[Any], Any]) -> Any:
        """As of other futures; a waiter of the returned future helps, too."""
        following = HelpedFuture(self._works)

        def run_callback(done: Any) -> None:
            try:
                following.set_result(callback(done))
            except Exception as error:
                fail(following, error)

        self.add_done_callback(run_callback)
        return following


class Failure:
    """The value of a failed future.

    The C++ of DDP takes gradients out of any value, and crashes if it has no tensors,
    which it finds by pickling; that raises the error. The result of a hook is cast to a
    tensor; that error shows the value.
    """

    def __init__(self, error: BaseException):
        self.error = error

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise self.error

    def __repr__(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"


def fail(future: Any, error: BaseException) -> None:
    """Complete a future with an error, for its waiters in Python and in C++."""

    def raise_error(failure: Failure) -> NoReturn:
        raise failure.error

    future._set_unwrap_func(raise_error)
    future.set_result(Failure(error))


class CountDown:
    """Calls a function when ``count`` calls have completed, in any order."""

    def __init__(self, count: int, then: Callable[[], None]):
        self._left, self._then = count, then
        self._lock = Lock()

    def one_done(self, _: object) -> None:
        with self._lock:
            self._left -= 1
            is_last = self._left == 0
        if is_last:
            self._then()
