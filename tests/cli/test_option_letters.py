"""The letters of options: one meaning each."""

import click

from collalgo.cli.main import main


def options_of(command):
    """The options of a command and of those below it."""
    context = click.Context(command)
    names = command.list_commands(context) if isinstance(command, click.Group) else ()
    for name in names:
        yield from options_of(command.get_command(context, name))
    yield from (p for p in command.params if isinstance(p, click.Option))


def test_a_letter_means_one_thing_in_all_commands():
    meant = {}
    for option in options_of(main):
        letters = [word for word in option.opts if len(word) == 2]
        for letter in letters:
            meant.setdefault(letter, set()).update({*option.opts} - {letter})
    assert meant["-c"] == {"--collective"}
    assert all(len(names) <= 1 for names in meant.values()), meant
