"""The command ``collalgo``: the group of its commands."""

from importlib import import_module
from typing import Any

import click

from collalgo.cli.group import SETTINGS, Group
from collalgo.cli.standard_output import refusing_output

#: The module of each command, imported when it runs or for the list of commands.
COMMANDS = {
    "algorithms": "collalgo.cli.algorithms:algorithms",
    "bench": "collalgo.bench.cli:main",
    "bound": "collalgo.cli.bound:bound_command",
    "calibrate": "collalgo.bench.calibrate:calibrate_command",
    "cluster": "collalgo.bench.cluster.cli:main",
    "completion": "collalgo.cli.completion:completion_command",
    "docs": "collalgo.cli.docs:docs_command",
    "doctor": "collalgo.cli.doctor:doctor_command",
    "elastic": "collalgo.cli.elastic:main",
    "env": "collalgo.cli.env:env_command",
    "plan": "collalgo.cli.plan:plan_command",
    "run": "collalgo.cli.run:run_command",
    "select": "collalgo.cli.select:select_command",
    "selftest": "collalgo.cli.selftest:selftest_command",
    "simulate": "collalgo.cli.simulate:simulate_command",
    "topo": "collalgo.cli.topo:main",
    "trace": "collalgo.cli.trace:main",
    "tune": "collalgo.bench.tune:tune",
    "verify": "collalgo.cli.verify:verify_command",
}


class LazyGroup(Group):
    """A group that imports only the command that runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names of all commands."""
        return list(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        """The command of a name, or None."""
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), function)
        return command

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command line; its output may be one that cannot be written."""
        with refusing_output():
            return super().main(*args, **extra)


@click.group(cls=LazyGroup, context_settings=SETTINGS)
@click.version_option(package_name="collalgo")
def main() -> None:
    """Run, prove, choose and measure collective communication."""
