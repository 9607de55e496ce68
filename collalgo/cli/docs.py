"""The command ``collalgo docs``."""

import webbrowser
from pathlib import Path

import click

#: The first page of the site, in a copy of the repository.
SITE = Path(__file__).parents[2] / "build" / "site" / "site.html"


@click.command("docs")
@click.option("--path", "only_path", is_flag=True, help="Print the path of the site.")
def docs_command(only_path: bool) -> None:
    """Open the documentation in a browser.

    It is built by make site, in a copy of the repository.
    """
    if not SITE.is_file():
        raise click.ClickException(
            f"the documentation is not built: there is no {SITE}; run make site in a "
            "copy of the repository, or read its docs/index.md and help(collalgo)"
        )
    if only_path or not webbrowser.open(SITE.as_uri()):
        click.echo(SITE)
