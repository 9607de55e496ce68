"""Messages in parts: they go when all their parts are ready."""

from typing import Any

from collalgo.integrations.as_mpi4py.constants import ANY_SOURCE, ANY_TAG
from collalgo.integrations.as_mpi4py.infos import INFO_NULL
from collalgo.integrations.as_mpi4py.parts import Part, repeated
from collalgo.integrations.as_mpi4py.prequests import Parts, Prequest
from collalgo.integrations.as_mpi4py.sending import Sending
from collalgo.integrations.as_mpi4py.specs import simple


def _whole(buf: Any, partitions: int, rank: int, *, writable: bool) -> Part:
    """The buffer of all parts."""
    part = simple(buf, writable=writable, blocks=partitions, rank=rank)
    return repeated(part, partitions)


class PartitionedMessages(Sending):
    """Messages in parts; a mixin of communicators."""

    def Psend_init(
        self,
        buf: Any,
        partitions: int,
        dest: int,
        tag: int = 0,
        info: Any = INFO_NULL,
    ) -> Any:
        """Prepare a send of a message in parts."""
        del info
        part = _whole(buf, partitions, dest, writable=False)
        return Prequest.of_start(
            lambda: Parts(lambda: self.send_bytes(part.pack(), dest, tag), partitions)
        )

    def Precv_init(
        self,
        buf: Any,
        partitions: int,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        info: Any = INFO_NULL,
    ) -> Any:
        """Prepare a receive of a message in parts."""
        del info
        part = _whole(buf, partitions, source, writable=True)
        return Prequest.of_start(lambda: self.receive_part(part, source, tag))
