"""Messages between devices over the engine between hosts, if that is CUDA-aware."""

from collections.abc import Callable, Sequence

from collalgo._kernels.engine.transport.device_messages import DeviceMessages
from collalgo.engine.devices.runtime import Bytes, Mark, Runtime


class CallFailed(Exception):
    """The call of the messages has failed; the transport knows why."""


class EngineNetwork:
    """The messages of a call over the engine; see :class:`~.runtime.Network`.

    An engine knows no streams, so the host waits for the stream before each group of
    messages, and then for the messages. Both waits end if the call fails.

    Parameters
    ----------
    runtime
        The device, with the stream of the call.
    messages
        The end of this rank.
    reached
        Waits until a stream has reached a mark: False if the call has failed.
    """

    def __init__(
        self,
        runtime: Runtime,
        messages: DeviceMessages,
        reached: Callable[[Mark], bool],
    ):
        self._runtime, self._messages = runtime, messages
        self._reached = reached

    def exchange(
        self, _stream: object, sends: Sequence[Bytes], receives: Sequence[Bytes]
    ) -> None:
        reached = self._reached(self._runtime.mark())
        if not reached or not self._messages.exchange(list(sends), list(receives)):
            raise CallFailed

    def close(self) -> None:
        """Nothing: the engine belongs to the world."""
