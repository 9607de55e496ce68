"""The forms of calls among neighbors that do not wait for them."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from collalgo._kernels.comm.persistent import Persistent
from collalgo._kernels.comm.work import Work
from collalgo.comm.background import check_mutable

if TYPE_CHECKING:
    from collalgo.comm.runner import Runner


class NeighborForms:
    """Calls among neighbors in the background, and persistent ones; a mixin."""

    _runner: "Runner"

    allgather: Callable[..., Any]
    allgatherv: Callable[..., Any]
    alltoall: Callable[..., Any]
    alltoallv: Callable[..., Any]

    def allgather_async(self, *args: Any, **named: Any) -> Work:
        """Make the call :meth:`allgather` in the background."""
        return self._submit("allgather", partial(self.allgather, *args, **named))

    def allgatherv_async(self, *args: Any, **named: Any) -> Work:
        """Make the call :meth:`allgatherv` in the background."""
        return self._submit("allgatherv", partial(self.allgatherv, *args, **named))

    def alltoall_async(self, *args: Any, **named: Any) -> Work:
        """Make the call :meth:`alltoall` in the background."""
        return self._submit("alltoall", partial(self.alltoall, *args, **named))

    def alltoallv_async(self, *args: Any, **named: Any) -> Work:
        """Make the call :meth:`alltoallv` in the background."""
        return self._submit("alltoallv", partial(self.alltoallv, *args, **named))

    def persistent_allgather(self, *args: Any, **named: Any) -> Persistent:
        """Prepare the call :meth:`allgather` to be made many times."""
        return self._prepare(self.allgather, args, named)

    def persistent_allgatherv(self, *args: Any, **named: Any) -> Persistent:
        """Prepare the call :meth:`allgatherv`; the ranks exchange lengths once."""
        return self._prepare(self.allgatherv, args, named)

    def persistent_alltoall(self, *args: Any, **named: Any) -> Persistent:
        """Prepare the call :meth:`alltoall` to be made many times."""
        return self._prepare(self.alltoall, args, named)

    def persistent_alltoallv(self, *args: Any, **named: Any) -> Persistent:
        """Prepare the call :meth:`alltoallv`; the ranks exchange counts once."""
        return self._prepare(self.alltoallv, args, named)

    def _submit(self, name: str, call: Callable[[], Any]) -> Work:
        work: Work = self._runner.submit(name, call)
        return work

    def _prepare(
        self, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]
    ) -> Persistent:
        name = function.__name__
        check_mutable(name, args, named)
        call = partial(function, *args, **named)
        work: Persistent = self._runner.submit(name, call, True)
        return work
