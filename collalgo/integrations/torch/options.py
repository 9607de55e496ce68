"""The ``pg_options`` of process groups."""

from dataclasses import dataclass
from typing import Any

from collalgo.comm.communicator import Communicator


@dataclass(frozen=True)
class Options:
    """Options of a process group, for ``init_process_group(pg_options=)``.

    Attributes
    ----------
    is_high_priority_stream
        Whether calls in the background on CUDA tensors run on a stream of high
        priority, as with the option of NCCL of this name.
    """

    is_high_priority_stream: bool = False

    def apply(self, comm: Communicator) -> None:
        """Set these options of the communicator of a group."""
        if self.is_high_priority_stream:
            comm._runner.devices.has_high_priority = True


def checked(options: Any) -> Options:
    """The options of a process group.

    Raises
    ------
    TypeError
        For options of another backend, whose fields would be ignored.
    """
    if options is None:
        return Options()
    if isinstance(options, Options):
        return options
    kind = f"{type(options).__module__}.{type(options).__qualname__}"
    raise TypeError(
        f"collalgo: pg_options is a {kind}; pass collalgo.integrations.torch.Options"
    )
