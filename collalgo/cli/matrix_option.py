"""The option ``--matrix`` of commands on an alltoallv."""

import click

from collalgo.cost.byte_matrix import ByteMatrix
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
