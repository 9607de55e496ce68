"""Options that several commands share."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import click

from collalgo.base import output_files, plotting, plugins
from collalgo.base.units import size_in_bytes, sizes_in_bytes
from collalgo.bootstrap.identity import identity
from collalgo.cli import completing
from collalgo.errors import CollalgoError, OutputError, PluginError
from collalgo.integrations.algorithm_files import load, load_algorithms
from collalgo.schedule.collective import COLLECTIVES

T = TypeVar("T")


class FiniteRange(click.FloatRange):
    """A range of finite numbers, which others let NaN pass."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def load_file(name: str) -> ModuleType:
    """The module of a user's Python file."""
    return _or_usage_error(load, name)


def register_file(name: str) -> None:
    """Add the algorithms of a user's file to the table."""
    _or_usage_error(load_algorithms, name)


def _or_usage_error(read: Callable[[str], T], name: str) -> T:
    """Read a user's file; an invalid one is an error of usage."""
    try:
        return read(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _register_files(_context: object, _parameter: object, names: Sequence[str]) -> None:
    """Add the algorithms of plug-ins and of the user's files to the table."""
    try:
        plugins.load_plugins()
    except PluginError as error:
        raise click.UsageError(str(error)) from None
    for name in names:
        register_file(name)


load_option = click.option(
    "-l",
    "--load",
    multiple=True,
    expose_value=False,
    callback=_register_files,
    shell_complete=completing.files,
    help="Load algorithms from a file: Python with @collalgo.algorithm, MSCCL XML, or "
    "an MSCCL++ plan.",
)


def parse_size(_context: object, _parameter: object, text: str) -> int:
    """The size of an option, in bytes."""
    try:
        return size_in_bytes(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def parse_sizes(
    _context: object, _parameter: object, text: str | None
) -> list[int] | None:
    """The sizes of an option: a list of sizes and ranges."""
    try:
        return None if text is None else sizes_in_bytes(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


collective_option = click.option(
    "-c",
    "--collective",
    type=click.Choice(list(COLLECTIVES)),
    help="Collective; required if the name exists for several, or the function is not "
    "decorated.",
)


#: The type of an output file; it is checked before the command begins.
output_path = click.Path(dir_okay=False, allow_dash=True, path_type=Path)

force_option = click.option(
    "--force",
    is_flag=True,
    is_eager=True,
    help="Overwrite a file that was edited, or that collalgo did not write.",
)


def writes(
    kind: output_files.Format,
    *,
    by_ranks: bool = False,
    by_option: tuple[str, Mapping[str, output_files.Format]] = ("", {}),
    **by_ending: output_files.Format,
) -> dict[str, Any]:
    """The click arguments of a file to be written, in addition to ``force_option``.

    Parameters
    ----------
    kind
        What is written; :data:`~collalgo.base.plotting.PICTURE` by the ending of the
        name.
    by_ranks
        Whether all ranks of a job run the command, of which only rank 0 writes.
    by_option
        The name of an eager option, and what is written for its values.
    by_ending
        What is written if the name of the file ends so.
    """
    name, kinds = by_option

    def refuse(
        context: click.Context, _parameter: click.Parameter, path: Path | None
    ) -> Path | None:
        if path is not None:
            force = bool(context.params.get("force"))
            meant = by_ending.get(output_files.ending(path), kind)
            meant = kinds.get(context.params.get(name, ""), meant)
            _refuse(path, meant, force, by_ranks)
        return path

    return {"type": output_path, "callback": refuse}


def _refuse(path: Path, kind: output_files.Format, force: bool, by_ranks: bool) -> None:
    try:
        if by_ranks and identity().rank:
            return
        if kind is plotting.PICTURE:
            plotting.check(path, force=force)
        else:
            output_files.check(path, kind, force=force)
    except (CollalgoError, ImportError, ValueError) as error:
        raise click.ClickException(str(error)) from None


def write_or_refuse(
    path: Path, content: str, kind: output_files.Format, *, force: bool
) -> None:
    """Write a file of a command, which ends with one sentence if that fails."""
    try:
        output_files.write(path, content, kind, force=force)
    except OutputError as error:
        raise click.ClickException(str(error)) from None
