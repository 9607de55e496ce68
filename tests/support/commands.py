"""Commands of ``collalgo``, run in the process of the tests."""

from click.testing import CliRunner

from collalgo.cli.main import main


def run(*words):
    """The output of a command that succeeds."""
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 0, (words, found.output[-500:], found.exception)
    return found.output
