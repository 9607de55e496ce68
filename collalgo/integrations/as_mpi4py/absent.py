"""What is not supported: each call raises NotImplementedError with one sentence."""

from collections.abc import Callable
from typing import Any, NoReturn

from collalgo.integrations.as_mpi4py.comm import Comm, Intracomm
from collalgo.integrations.as_mpi4py.handles import Handle, constant

FILES = "MPI files are not supported; write with numpy.save or h5py, from one rank"
WINDOWS = "MPI windows are not supported; use messages or collectives"
SESSIONS = "MPI sessions are not supported; use MPI.COMM_WORLD"
SPAWN = "spawning processes is not supported; start all ranks with collalgo run -n"
FAULTS = "agreement after failures is not supported; see collalgo run --elastic"


def refusal(sentence: str) -> Callable[..., NoReturn]:
    """A call that is not supported."""

    def refuse(*_arguments: Any, **_named: Any) -> NoReturn:
        raise NotImplementedError(sentence)

    return refuse


class _Absent:
    """A class that has only a null handle."""

    sentence: str

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotImplementedError(self.sentence)


class Win(_Absent, Handle):
    """Memory that other ranks access; not supported."""

    null_name, error_name, sentence = "WIN_NULL", "ERR_WIN", WINDOWS


class File(_Absent, Handle):
    """Files that ranks share; not supported."""

    null_name, error_name, sentence = "FILE_NULL", "ERR_FILE", FILES


class Session(_Absent, Handle):
    """Sessions; not supported."""

    null_name, error_name, sentence = "SESSION_NULL", "ERR_SESSION", SESSIONS


#: The calls of each class that make an object, and why they are not supported.
CALLS: dict[Any, tuple[str, tuple[str, ...]]] = {
    Win: (WINDOWS, ("Create", "Allocate", "Allocate_shared", "Create_dynamic",
                    "Create_keyval", "Free_keyval")),
    File: (FILES, ("Open", "Delete")),
    Session: (SESSIONS, ("Init",)),
}  # fmt: skip

#: Further calls of communicators.
FURTHER = (
    (SPAWN, Intracomm, ("Spawn", "Spawn_multiple", "Accept", "Connect")),
    (SPAWN, Comm, ("Join",)),
    (FAULTS, Comm, ("Get_failed", "Ack_failed", "Agree", "Iagree", "Shrink",
                    "Ishrink")),
)  # fmt: skip

for _class, (_sentence, _names) in CALLS.items():
    for _name in _names:
        setattr(_class, _name, staticmethod(refusal(_sentence)))
for _sentence, _class, _names in FURTHER:
    for _name in _names:
        setattr(_class, _name, staticmethod(refusal(_sentence)))

#: Functions of the module that are not supported.
FUNCTIONS = {
    name: refusal(SPAWN)
    for name in (
        *("Open_port", "Close_port", "Publish_name", "Unpublish_name"),
        "Lookup_name",
    )
} | {"Register_datarep": refusal(FILES)}


NULLS = {
    "WIN_NULL": constant("WIN_NULL", Win()),
    "FILE_NULL": constant("FILE_NULL", File()),
    "SESSION_NULL": constant("SESSION_NULL", Session()),
}
