"""The calls of a process group of torch on its communicator."""

from datetime import timedelta
from functools import partial
from typing import Any

import torch.distributed as dist
from torch import Tensor, device

from collalgo._kernels.comm.work import Work
from collalgo._kernels.integrations.torch_calls import DirectCalls
from collalgo.comm import current
from collalgo.comm.communicator import Communicator
from collalgo.integrations.torch.backend_interface import BackendInterface
from collalgo.integrations.torch.backward import defer
from collalgo.integrations.torch.bucket_names import BucketNames, named
from collalgo.integrations.torch.copies import Copy
from collalgo.integrations.torch.overloads import one_tensor
from collalgo.integrations.torch.profiling import profiled
from collalgo.integrations.torch.tensors import Operand, array_of, gpu_of, joined
from collalgo.integrations.torch.work import GroupWork, seconds_of

#: Seconds that the end of a group waits for its calls in the background.
CLOSING_SECONDS = 5.0


class GroupCalls(BackendInterface):
    """Makes the calls of a process group, and its messages between two ranks.

    Parameters
    ----------
    comm
        The communicator.
    store
        The store of torch for this group.
    """

    def __init__(self, comm: Communicator, store: dist.Store):
        super().__init__(comm.rank, comm.size, store)
        self.comm = comm
        self._coalesced: list[GroupWork] = []
        self.direct_calls = DirectCalls(comm)
        self.bucket_names = BucketNames()

    @profiled
    @named
    def _make(
        self,
        call: str,
        opts: Any,
        tensors: list[Tensor],
        source: Operand | None,
        *args: Any,
        out: Operand | None = None,
    ) -> GroupWork:
        """Make a call; in the background for ``async_op`` and coalesced calls."""
        keywords: dict[str, Any] = {} if out is None else {"out": array_of(out.tensor)}
        keywords["timeout"] = seconds_of(opts.timeout)
        if source is not None:
            args = (array_of(source.tensor), *args)
        written = source if call == "broadcast" else out
        pack, unpack, finish, gpu = _copies(source, written)
        make, works = getattr(self.comm, call), []
        in_background = opts.asyncOp or self.direct_calls.is_coalescing
        if in_background and source is not None and gpu is None:
            defer(current.runner_of(self.comm).progress)
        if in_background or pack is not None or unpack is not None:
            runner = current.runner_of(self.comm)
            prepare = partial(make, *args, **keywords)
            works = [runner.submit(call, prepare, False, pack, unpack)]
        else:
            make(*args, **keywords)
        made = self._noted(GroupWork(works, tensors, finish, gpu))
        if not in_background and (works or finish):
            made.wait()
        return made

    def work_of(self, works: list[Work], tensors: list[Tensor]) -> GroupWork:
        """The work of calls in the background, if any, on tensors of the host."""
        return self._noted(GroupWork(works, tensors))

    def _noted(self, work: GroupWork) -> GroupWork:
        work.end_group = self.abort
        if self.direct_calls.is_coalescing:
            self._coalesced.append(work)
        return work

    def _start_coalescing(self, _device: device) -> None:
        self._coalesced = []
        self.direct_calls.is_coalescing = True

    def _end_coalescing(self, _device: device) -> GroupWork:
        works, self._coalesced = self._coalesced, []
        self.direct_calls.is_coalescing = False
        return GroupWork.of(works)

    # ---- messages between two ranks

    @profiled
    def _message(
        self, call: str, tensors: list[Tensor], peer: int | None, tag: int
    ) -> GroupWork:
        tensor, pack, unpack = joined([one_tensor(call, tensors)])
        if call == "send" and pack is not None:
            pack()
        finish = [unpack] if call == "recv" and unpack is not None else []
        work = getattr(self.comm, f"i{call}")(array_of(tensor), peer, tag)
        return self._noted(GroupWork([work], tensors, finish, gpu_of(tensor)))

    # Torch's names of the peers, which are keywords.

    def send(self, tensors: list[Tensor], dstRank: int, tag: int) -> GroupWork:  # noqa: N803
        return self._message("send", tensors, dstRank, tag)

    def recv(self, tensors: list[Tensor], srcRank: int, tag: int) -> GroupWork:  # noqa: N803
        return self._message("recv", tensors, srcRank, tag)

    def recv_anysource(self, tensors: list[Tensor], tag: int) -> GroupWork:
        return self._message("recv", tensors, None, tag)

    # ---- the end

    def abort(self) -> None:
        self.comm.abort("its process group was aborted")

    def shutdown(self) -> None:
        if current.of_process.foreign is self.comm:
            current.of_process.foreign = None
        current.runner_of(self.comm).progress.leftovers(CLOSING_SECONDS)
        self.comm.close()

    def set_timeout(self, timeout: timedelta) -> None:
        self.comm.timeout = timeout.total_seconds()


def _copies(
    source: Operand | None, out: Operand | None
) -> tuple[Copy | None, Copy | None, list[Copy], device | None]:
    """The copies directly before and after a call, those after a wait, and the GPU.

    On a GPU they are made at once, and after a wait, on the current stream.
    """
    pack = source.pack if source is not None else None
    unpack = out.unpack if out is not None else None
    gpu = gpu_of(source.tensor) if source is not None else None
    if gpu is None:
        return pack, unpack, [], None
    if pack is not None:
        pack()
    return None, None, [] if unpack is None else [unpack], gpu
