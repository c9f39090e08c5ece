"""The page of all commands and options, for `make docs`: `python -m barnabas.cli.option_docs`."""

import sys
from collections.abc import Iterator
from typing import Any

import typer

from barnabas.cli.commands import app

_OPENING = """# Every option

The help of every command, as `barnabas COMMAND --help` prints it.
[Commands](cli.md) explains them.
"""


def options_page() -> str:
    return _OPENING + "".join(_sections(typer.main.get_command(app), "barnabas", None))


def _sections(command: Any, name: str, parent: Any) -> Iterator[str]:
    """The help of a command, then of those below it."""
    context = type(command).context_class(command, info_name=name, parent=parent)
    shown = command.get_help(context).strip()
    yield f"\n## {context.command_path}\n\n```text\n{shown}\n```\n"
    for below in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from _sections(command.get_command(context, below), below, context)


if __name__ == "__main__":
    sys.stdout.write(options_page())
