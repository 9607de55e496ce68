"""The command ``collalgo env``: the environment variables and their values."""

import sys

import click
from rich.table import Table

from collalgo.base.console import wide_console
from collalgo.base.environment import Variable, known
from collalgo.base.variable_values import hexadecimal
from collalgo.errors import VariableError
from collalgo.schedule.collective import COLLECTIVES


@click.command("env")
def env_command() -> None:
    """List the environment variables with values and defaults.

    The exit code is 1 if a value is wrong.
    """
    table = Table("variable", "value", "default", "meaning", box=None)
    wrong = []
    for variable in known(COLLECTIVES):
        if variable.internal and not variable.given():
            continue
        try:
            variable.value()
        except VariableError as error:
            wrong.append(str(error))
        table.add_row(
            variable.name, _shown(variable), variable.default, variable.summary
        )
    wide_console().print(table, highlight=False)
    for each in wrong:
        click.echo(f"Error: {each}", err=True)
    sys.exit(bool(wrong))


def _shown(variable: Variable) -> str:
    """The text of a variable; of a secret only its length."""
    given = variable.given()
    if given and variable.parse is hexadecimal:
        return f"({len(given)} characters)"
    return given
