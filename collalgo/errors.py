"""The errors of the library, one tree."""


class CollalgoError(Exception):
    """The base class of all errors of collalgo.

    Attributes
    ----------
    rank : int or None
        The rank on which the error was raised.
    sequence : int or None
        The number of the call on its communicator, from 1.
    collective : str or None
        The collective that was called.
    missing : tuple of int
        The ranks that caused the error: dead, gone or late.
    """

    def __init__(
        self,
        message: str,
        *,
        rank: int | None = None,
        sequence: int | None = None,
        collective: str | None = None,
        missing: tuple[int, ...] = (),
    ):
        super().__init__(message)
        self.rank = rank
        self.sequence = sequence
        self.collective = collective
        self.missing = missing

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), str(self), self.__dict__)


def _rebuild(
    kind: type[CollalgoError], message: str, attributes: dict[str, object]
) -> CollalgoError:
    error = kind.__new__(kind, message)
    CollalgoError.__init__(error, message)  # an OSError takes its message only so
    error.__dict__.update(attributes)
    return error


class ScheduleError(CollalgoError):
    """A schedule is wrong; the message names the step, the rank and the chunk.

    Attributes
    ----------
    fault : tuple of int or None
        The rank and the number of the step that is wrong first, if that is known.
    """

    def __init__(
        self,
        message: str,
        *,
        rank: int | None = None,
        sequence: int | None = None,
        collective: str | None = None,
        missing: tuple[int, ...] = (),
        fault: tuple[int, int] | None = None,
    ):
        super().__init__(
            message,
            rank=rank,
            sequence=sequence,
            collective=collective,
            missing=missing,
        )
        self.fault = fault


class AlgorithmNotApplicable(CollalgoError, ValueError):
    """The requested algorithm cannot run this call; no other one replaces it."""


class MismatchError(CollalgoError):
    """The ranks of a communicator did not make the same call."""


class CollectiveTimeout(CollalgoError, TimeoutError):
    """A rank did not make the call in time; ``missing`` names it."""


class PeerFailed(CollalgoError):
    """A rank died or left before the end of the call; ``missing`` names it."""


class CommunicatorRevoked(PeerFailed):
    """A rank has revoked the communicator or is shrinking it; ``missing`` names it."""


class OpFailed(CollalgoError):
    """An op of the user raised an exception on another rank; ``missing`` names it."""


class InvalidElsewhere(CollalgoError, ValueError):
    """Another rank, ``missing``, passed what is invalid, and raises the reason."""


class CommunicatorClosed(CollalgoError):
    """The communicator was closed, or belongs to the parent of a forked process."""


class BootstrapError(CollalgoError):
    """The ranks could not find each other."""


class VariableError(BootstrapError, ValueError):
    """An environment variable of the library has a wrong value."""


class RendezvousError(BootstrapError):
    """The members of an elastic job could not form another epoch."""


class EpochLost(RendezvousError):
    """The store of an elastic job was restarted, and has no record of its epoch."""


class RendezvousClosed(RendezvousError):
    """The elastic job is closed: it has ended, or was given up."""


class TopologyError(CollalgoError, ValueError):
    """A topology cannot be read, built or used as asked."""


class RulesError(CollalgoError, ValueError):
    """A rules file for the choice of algorithms cannot be used."""


class PluginError(CollalgoError, ImportError):
    """A plug-in of another package cannot be imported."""


class OutputError(CollalgoError, OSError):
    """A file cannot be written, or must not be overwritten."""
