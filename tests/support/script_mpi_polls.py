"""Poll MPI as waits do, with stand-ins for its functions: prints the probes."""

import ctypes
import sys
from threading import Thread

from collalgo._kernels.engine.transport import wire
from collalgo._kernels.engine.transport.mpi import FUNCTIONS, MpiWire

PROBE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_int), ctypes.c_void_p,
)  # fmt: skip
FINALIZED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int))


@PROBE
def probe(source, tag, comm, _flag, _status):
    print(level, *where, source, tag, comm)
    return 0


@FINALIZED
def finalized(flag):
    flag[0] = where == ["finalized"]
    return 0


functions = dict.fromkeys(FUNCTIONS, 0) | {
    name: ctypes.cast(one, ctypes.c_void_p).value
    for name, one in (("MPI_Iprobe", probe), ("MPI_Finalized", finalized))
}
for level in sys.argv[1:]:
    MpiWire(functions, 5, 6, (-2, -1, 7), None, level)
    where = ["main"]
    wire.poll()
    where = ["other"]
    other = Thread(target=wire.poll)
    other.start()
    other.join()
    where = ["finalized"]
    wire.poll()
