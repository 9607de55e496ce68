"""The module ``mpi4py.MPI``: that of the library, under its own name, too."""

import sys

from collalgo.integrations.as_mpi4py import MPI

sys.modules[__name__] = MPI
