"""The options of ``mpi4py.rc``, most of which change nothing here."""

from typing import Any


class RunControl:
    """The options of ``mpi4py.rc``.

    Attributes
    ----------
    initialize : bool
        Whether the import of ``mpi4py.MPI`` joins the world.
    finalize : bool or None
        As the end of the process leaves the world in any case, it changes nothing;
        nor do the others.
    """

    def __init__(self, **options: Any) -> None:
        self.__dict__.update(
            initialize=True,
            threads=True,
            thread_level="multiple",
            finalize=None,
            fast_reduce=True,
            recv_mprobe=True,
            irecv_bufsz=32768,
            errors="exception",
        )
        self(**options)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dict__:
            raise TypeError(f"mpi4py.rc has no option {name!r}")
        self.__dict__[name] = value

    def __call__(self, **options: Any) -> None:
        for name, value in options.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"mpi4py.rc({options})"


#: The options of this process.
rc = RunControl()
