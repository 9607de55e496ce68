"""Messages between devices over the engine between hosts, if that is CUDA-aware."""

from collections.abc import Sequence

from collalgo._kernels.engine.transport.device_messages import DeviceMessages
from collalgo.engine.devices.runtime import Bytes, Runtime


class CallFailed(Exception):
    """The call of the messages has failed; the transport knows why."""


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
    """

    def __init__(self, runtime: Runtime, messages: DeviceMessages):
        self._runtime, self._messages = runtime, messages

    def exchange(
        self, _stream: object, sends: Sequence[Bytes], receives: Sequence[Bytes]
    ) -> None:
        self._runtime.mark().synchronize()
        if not self._messages.exchange(list(sends), list(receives)):
            raise CallFailed

    def close(self) -> None:
        """Nothing: the engine belongs to the world."""
