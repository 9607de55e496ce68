"""The command ``collalgo completion``: the script with which a shell completes."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", no_args_is_help=True)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    r"""Print the script that completes commands in SHELL.

    \b
    bash, in ~/.bashrc: eval "$(collalgo completion bash)"
    zsh, in ~/.zshrc: eval "$(collalgo completion zsh)"
    fish: collalgo completion fish > ~/.config/fish/completions/collalgo.fish
    """
    found = get_completion_class(shell)
    assert found is not None  # click has all three
    command = ctx.find_root().command
    click.echo(found(command, {}, "collalgo", "_COLLALGO_COMPLETE").source())
