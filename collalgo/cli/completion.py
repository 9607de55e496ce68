"""The command ``collalgo completion``: the script with which a shell completes."""

import click
from click.shell_completion import BashComplete, ShellComplete, get_completion_class

SHELLS = ("bash", "zsh", "fish")


class Bash(BashComplete):
    """The script of bash, which offers names and files together.

    That of click forgets the names when files are offered, too.
    """

    source_template = r"""
%(complete_func)s() {
    local IFS=$'\n' response completion type value files=
    response=$(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \
        %(complete_var)s=bash_complete "$1")
    COMPREPLY=()
    for completion in $response; do
        IFS=',' read -r type value <<< "$completion"
        case $type in
            dir) compopt -o dirnames ;;
            file) files=yes ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done
    if [[ $files && ${#COMPREPLY[@]} -eq 0 ]]; then
        compopt -o default
    elif [[ $files ]]; then
        compopt -o filenames
        COMPREPLY+=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
    fi
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


PROGRAM = "collalgo"


def script_class(shell: str) -> type[ShellComplete]:
    """The class that writes the script of a shell."""
    found = Bash if shell == Bash.name else get_completion_class(shell)
    assert found is not None  # click has all three
    return found


@click.command("completion", no_args_is_help=True)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands in SHELL.

    \b
    bash, in ~/.bashrc: eval "$(collalgo completion bash)"
    zsh, in ~/.zshrc: eval "$(collalgo completion zsh)"
    fish: collalgo completion fish > ~/.config/fish/completions/collalgo.fish
    """  # noqa: D301 - \b is the character by which click keeps lines
    command = ctx.find_root().command
    variable = f"_{PROGRAM}_complete".upper()  # as click names it
    script = script_class(shell)(command, {}, PROGRAM, variable)
    click.echo(script.source())
