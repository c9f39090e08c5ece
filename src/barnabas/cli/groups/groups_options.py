"""The options that the commands about groups share."""

from typing import Annotated

import typer

from barnabas.cli.exit_codes import Misused
from barnabas.cli.options import check_topics


def check_groups(names: list[str]) -> list[str]:
    """Each name once. Raises Misused if one is empty, as an unset shell variable is."""
    if not all(names):
        raise Misused("the name of the group is empty; give one")
    return list(dict.fromkeys(names))


Groups = Annotated[
    list[str], typer.Argument(metavar="GROUP...", help="The groups.", callback=check_groups)
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC[:0,1]",
        help="A topic, or some of its partitions; may be repeated.",
        callback=check_topics,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
