"""An option has one meaning in all commands."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from collalgo.cli.main import main

#: Options, and the nouns that the help texts of each begin with.
MEANINGS = {
    "-n": ("Number of ranks",),
    "--ranks": ("Number of ranks",),
    "--size": ("Bytes", "Sizes in bytes"),
    "--hosts": ("Number of hosts",),
    "--nics": ("Number of NICs",),
    "--interfaces": ("Interfaces",),
    "-H": ("Hosts",),
    "--force": ("Overwrite",),
    "--topology": ("Topology",),
    "--root": ("Rank of the root", "Root rank"),
    "--load": ("Load algorithms",),
    "--collective": ("Collective",),
}


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """A command and all below it, with their names."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in command.list_commands(context):
            found = command.get_command(context, word)
            assert found is not None
            yield from commands(found, f"{name} {word}")


@pytest.mark.parametrize("option", MEANINGS)
def test_an_option_has_one_meaning_in_all_commands(option):
    helps = {
        name: parameter.help or ""
        for name, command in commands(main, "collalgo")
        for parameter in command.params
        if isinstance(parameter, click.Option) and option in parameter.opts
    }
    assert helps
    others = {n: t for n, t in helps.items() if not t.startswith(MEANINGS[option])}
    assert not others


def test_every_command_and_option_has_a_help_text():
    for name, command in commands(main, "collalgo"):
        assert command.help, name
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert parameter.help, f"{name} {parameter.opts[0]}"
                assert (
                    parameter.help[0].isupper()
                    or parameter.help[0].isdigit()
                    or (parameter.help.startswith("dtypes"))
                ), parameter.help


def test_the_reference_names_each_command_as_users_do():
    names = [(name, command.name) for name, command in commands(main, "collalgo")]
    assert all(name.split()[-1] == own for name, own in names[1:])


@pytest.mark.parametrize(
    ("option", "advice"),
    [("-R", "; did you mean -n?"), ("--np", "; did you mean -n?"), ("--such", "")],
)
def test_an_unknown_option_of_run_is_not_taken_for_a_program(option, advice):
    done = CliRunner().invoke(main, ["run", option, "2", "x"])
    assert done.exit_code == 2
    assert f"no such option '{option}'{advice}" in " ".join(done.output.split())
