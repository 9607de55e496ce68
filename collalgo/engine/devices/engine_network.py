"""Messages between devices over the engine between hosts, if that is CUDA-aware."""

from collections.abc import Callable, Sequence

from collalgo._kernels.engine.transport.device_messages import DeviceMessages
from collalgo.engine.devices.runtime import Bytes, Runtime


class EngineNetwork:
    """The messages of a call over the engine; see :class:`~.runtime.Network`.

    An engine knows no streams, so the host waits for the stream before each group of
    messages, and then for the messages.

    Parameters
    ----------
    runtime
        The device, with the stream of the call.
    messages
        The end of this rank.
    check
        Called at intervals during a wait for messages; an error that it raises ends
        the wait.
    """

    def __init__(
        self, runtime: Runtime, messages: DeviceMessages, check: Callable[[], None]
    ):
        self._runtime, self._messages, self._check = runtime, messages, check

    def exchange(
        self, _stream: object, sends: Sequence[Bytes], receives: Sequence[Bytes]
    ) -> None:
        self._runtime.mark().synchronize()
        self._messages.exchange(list(sends), list(receives), self._check)

    def close(self) -> None:
        """Nothing: the engine belongs to the world."""
