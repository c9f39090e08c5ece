"""Options shared by the bench commands."""

from typing import Any, Final

import typer

FOLDER: Final[Any] = typer.Option(
    exists=True,
    file_okay=False,
    writable=True,
    help="Directory for up to 1 GB of data, which is deleted afterwards.",
)
