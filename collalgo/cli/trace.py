"""The command ``collalgo trace``."""

from pathlib import Path

import click

from collalgo.comm.tracing.analysis import DumpError, Finding, analyze


@click.group()
def main() -> None:
    """Inspect the calls that the ranks of a job made."""


@main.command("analyze")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def analyze_command(folder: Path) -> None:
    """Find the rank that diverged first from the dumps of all ranks in FOLDER.

    Dumps are written by collalgo.dump(), by SIGUSR1 and, where COLLALGO_DUMP names a
    folder, when a call fails. The exit code is 1 if a rank diverged.
    """
    try:
        findings = analyze(folder)
    except DumpError as error:
        raise click.ClickException(str(error)) from None
    for finding in findings:
        click.echo(_heading(finding))
        for line in finding.lines:
            click.echo(f"  {line}")
    raise SystemExit(int(any(finding.culprits for finding in findings)))


def _heading(finding: Finding) -> str:
    if not finding.culprits:
        return f"communicator {finding.communicator}: nobody diverged"
    ranks = ", ".join(map(str, finding.culprits))
    several = "s" if len(finding.culprits) > 1 else ""
    return (
        f"communicator {finding.communicator}: rank{several} {ranks} diverged first, "
        f"at call #{finding.number}"
    )
