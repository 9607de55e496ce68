"""The option ``--matrix`` of commands on an alltoallv."""

from collections.abc import Collection

import click

from collalgo.cost.byte_matrix import ByteMatrix
from collalgo.cost.matrix_bounds import ALLTOALLV
from collalgo.errors import CollalgoError


def _read_matrix(
    _context: object, _parameter: object, path: str | None
) -> ByteMatrix | None:
    """The matrix of a file, if one is given."""
    try:
        return ByteMatrix.read(path) if path else None
    except CollalgoError as error:
        raise click.BadParameter(str(error)) from None


matrix_option = click.option(
    "--matrix",
    metavar="FILE",
    callback=_read_matrix,
    help="File of comma-separated bytes for alltoallv: a line for each sender with a "
    "number for each receiver.",
)


def check_matrix(
    collectives: Collection[str], matrix: ByteMatrix | None, has_size: bool
) -> None:
    """Refuse an alltoallv without a matrix, and a matrix or a size for nothing.

    Parameters
    ----------
    collectives
        The collectives of the command.
    matrix
        The matrix, if one is given.
    has_size
        Whether a size is given.
    """
    if ALLTOALLV not in collectives:
        if matrix is not None:
            names = ", ".join(collectives)
            raise click.UsageError(
                f"--matrix is for alltoallv, not for {names}; leave --matrix out"
            )
        return
    if matrix is None:
        raise click.UsageError("alltoallv needs --matrix FILE")
    if has_size and len(collectives) == 1:
        raise click.UsageError(
            f"--matrix has all {matrix.total} bytes of alltoallv; leave the size out"
        )
