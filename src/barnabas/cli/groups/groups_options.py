"""Options shared by the `groups` commands."""

from typing import Annotated

import typer

from barnabas.cli.exit_codes import Misused
from barnabas.cli.options import check_topics


def check_groups(names: list[str]) -> list[str]:
    """The distinct names. Raises Misused for an empty one, such as an unset shell variable."""
    if not all(names):
        raise Misused("group id is empty")
    return list(dict.fromkeys(names))


Groups = Annotated[
    list[str], typer.Argument(metavar="GROUP", help="Group ids.", callback=check_groups)
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC[:0,1]",
        help="A topic, or some of its partitions; repeatable.",
        callback=check_topics,
    ),
]
