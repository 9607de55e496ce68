"""The command ``collalgo selftest``: try an installation."""

import platform
import sys
import time
from collections.abc import Callable

import click

from collalgo._version import __version__
from collalgo.base.console import patience, plain_console

#: The style of each outcome on a terminal.
STYLES = {"passed": "green", "skipped": "yellow", "FAILED": "bold red"}


@click.command("selftest")
def selftest_command() -> None:
    """Try proofs, calls, engines, the topology and a killed rank.

    Takes about 10 seconds on an idle machine. The report can be pasted into an issue;
    checks that cannot run here are skipped, with the reason. The exit code is 1 if a
    check failed.
    """
    from collalgo.cli.selftest_checks import CHECKS

    python = f"Python {platform.python_version()}"
    click.echo(f"collalgo {__version__}, {python}, {platform.platform()}")
    failed = [name for name, check in CHECKS.items() if not _passes(name, check)]
    click.echo(f"failed: {', '.join(failed)}" if failed else "all checks passed")
    sys.exit(bool(failed))


def _passes(name: str, check: Callable[[], str]) -> bool:
    """Whether a check passes or is skipped; print the outcome and its seconds."""
    from rich.text import Text

    from collalgo.cli.selftest_checks import NotHere

    begin = time.perf_counter()
    error = None
    try:
        with patience(name):
            outcome, detail = "passed", check()
    except NotHere as reason:
        outcome, detail = "skipped", str(reason)
    except Exception as raised:
        error = raised
        outcome, detail = "FAILED", f"{type(raised).__name__}: {raised}"
    seconds = time.perf_counter() - begin
    verdict = f"{outcome:<8}", STYLES[outcome]
    line = Text.assemble(f"{name:<20}", verdict, f" {seconds:5.1f} s  {detail}")
    plain_console().print(line, soft_wrap=True)
    return error is None
