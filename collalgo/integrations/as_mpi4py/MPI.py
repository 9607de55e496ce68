"""The module ``mpi4py.MPI`` over the engine of the library."""

import sys
from typing import Any

from collalgo.integrations.as_mpi4py import (
    absent,
    buffering,
    environment,
    errors,
    internals,
    packing,  # noqa: F401  # which adds calls to datatypes
)
from collalgo.integrations.as_mpi4py.buffers import Buffer
from collalgo.integrations.as_mpi4py.comm import Comm, Intracomm
from collalgo.integrations.as_mpi4py.constants import NUMBERS
from collalgo.integrations.as_mpi4py.datatypes import DATATYPES, TYPECODES, Datatype
from collalgo.integrations.as_mpi4py.errhandlers import Errhandler
from collalgo.integrations.as_mpi4py.generalized import Grequest
from collalgo.integrations.as_mpi4py.groups import Group
from collalgo.integrations.as_mpi4py.handles import CONSTANTS
from collalgo.integrations.as_mpi4py.infos import Info
from collalgo.integrations.as_mpi4py.intercomm import Intercomm, private_inter
from collalgo.integrations.as_mpi4py.memory import (
    BOTTOM,  # noqa: F401
    BUFFER_AUTOMATIC,  # noqa: F401
    IN_PLACE,  # noqa: F401
    BottomType,
    BufferAutomaticType,
    InPlaceType,
)
from collalgo.integrations.as_mpi4py.messages import Message
from collalgo.integrations.as_mpi4py.ops import Op
from collalgo.integrations.as_mpi4py.pickling import PICKLE, Pickle
from collalgo.integrations.as_mpi4py.prequests import Prequest
from collalgo.integrations.as_mpi4py.process import PROCESS
from collalgo.integrations.as_mpi4py.requests import Request
from collalgo.integrations.as_mpi4py.statuses import Status
from collalgo.integrations.as_mpi4py.topo_comms import (
    Cartcomm,
    Distgraphcomm,
    Graphcomm,
    Topocomm,
)
from collalgo.integrations.as_mpi4py.topologies import compute_dims

#: The classes, by their names here.
CLASSES: dict[str, Any] = {
    **{
        each.__name__: each
        for each in (
            *(Datatype, Status, Request, Prequest, Grequest, Message, Op, Group),
            *(Info, Errhandler, Comm, Intracomm, Topocomm, Cartcomm, Graphcomm),
            *(Distgraphcomm, Pickle, Intercomm, absent.Win, absent.File),
            *(absent.Session, BottomType, InPlaceType, BufferAutomaticType),
        )
    },
    "buffer": Buffer,
    "Exception": errors.MpiException,
}

for _name, _class in CLASSES.items():  # so that they are shown and pickled as such
    _class.__module__, _class.__name__, _class.__qualname__ = __name__, _name, _name

globals().update(NUMBERS)
globals().update(CLASSES)
globals().update(DATATYPES)
globals().update(CONSTANTS)
globals().update(absent.FUNCTIONS)
globals().update(internals.FUNCTIONS)
globals().update(
    {name: each for name, each in vars(environment).items() if name[:1].isupper()}
)

memory = Buffer
pickle = PICKLE
get_vendor = environment.get_vendor
Compute_dims = compute_dims
Attach_buffer, Detach_buffer = buffering.attach_buffer, buffering.detach_buffer
Flush_buffer, Iflush_buffer = buffering.flush_buffer, buffering.iflush_buffer
Get_error_class, Get_error_string = errors.error_class, errors.error_string
Add_error_class, Add_error_code = errors.add_error_class, errors.add_error_code
Add_error_string = errors.add_error_string
Remove_error_class = Remove_error_code = errors.remove_error_code
Remove_error_string = errors.remove_error_string
_typedict = TYPECODES
_commctx_inter = private_inter


def _start() -> None:
    """Join the world, unless ``mpi4py.rc`` says that the program does."""
    rc = getattr(sys.modules.get("mpi4py"), "rc", None)
    if getattr(rc, "initialize", True) and PROCESS.world is None:
        environment.Init()


_start()
