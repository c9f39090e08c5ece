"""Options that several commands of the bench have."""

from typing import Any, Final

import typer

FOLDER: Final[Any] = typer.Option(
    exists=True,
    file_okay=False,
    writable=True,
    help="A folder for the data, up to 1 GB; what is put there is deleted afterwards.",
)
