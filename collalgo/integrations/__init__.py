"""collalgo inside other libraries: torch, mpi4py, MSCCL."""
