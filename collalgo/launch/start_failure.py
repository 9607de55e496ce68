"""The reason why a rank of this host cannot be started."""

import errno
import resource

from collalgo.errors import CollalgoError

#: Descriptors that the launcher needs: for itself, and for each rank while it starts.
DESCRIPTORS_OF_ALL, DESCRIPTORS_OF_A_RANK = 16, 3


class StartFailure(CollalgoError):
    """A rank of this host cannot be started."""

    @classmethod
    def of(cls, rank: int, size: int, error: OSError) -> "StartFailure":
        """The failure of one of ``size`` ranks of this host, with the advice."""
        words = f"rank {rank} cannot be started: {error.strerror}"
        if error.errno == errno.EMFILE:
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            needed = DESCRIPTORS_OF_ALL + size * DESCRIPTORS_OF_A_RANK
            words += f"; {limit} are allowed, {needed} are needed: ulimit -n {needed}"
        elif error.errno == errno.EAGAIN:
            limit, _ = resource.getrlimit(resource.RLIMIT_NPROC)
            words += f"; the limit of processes is {limit}: ulimit -u"
        return cls(words, rank=rank)
