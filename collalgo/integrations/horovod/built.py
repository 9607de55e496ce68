"""The questions for the libraries that Horovod was built with: none is used here."""


def mpi_threads_supported() -> bool:
    """Whether MPI, which is not used, supports several threads: no."""
    return False


def mpi_enabled() -> bool:
    """Whether MPI carries the calls: no."""
    return False


def mpi_built() -> bool:
    """Whether there is support for MPI: no."""
    return False


def gloo_enabled() -> bool:
    """Whether gloo carries the calls: no."""
    return False


def gloo_built() -> bool:
    """Whether there is support for gloo: no."""
    return False


def nccl_built() -> bool:
    """Whether there is support for NCCL: no."""
    return False


def ddl_built() -> bool:
    """Whether there is support for DDL: no."""
    return False


def ccl_built() -> bool:
    """Whether there is support for oneCCL: no."""
    return False


def cuda_built() -> bool:
    """Whether there is support for CUDA of Horovod: no."""
    return False


def rocm_built() -> bool:
    """Whether there is support for ROCm: no."""
    return False
