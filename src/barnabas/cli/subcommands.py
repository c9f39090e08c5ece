"""Command groups, such as `barnabas topics`, with plain help."""

from collections.abc import Callable
from functools import partial
from inspect import cleandoc
from typing import Any, Final

import typer
from typer.core import TyperGroup

_WHOLE: Final = 1000


class PlainGroup(TyperGroup):
    """Prints the whole first sentence of each subcommand's help, where click cuts it."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        named = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [
            (name, command.get_short_help_str(_WHOLE))
            for name, command in named
            if command is not None and not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class _Group(PlainGroup):
    """Prints its help when called without a subcommand."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ["--help"])


def name_plainly(command: Any) -> None:
    """Show `<int>`, not `<list[int]>`, as the type of parameters that are repeated."""
    for subcommand in getattr(command, "commands", {}).values():
        name_plainly(subcommand)
    for parameter in command.params:
        parameter.display_type = partial(_plain_type, parameter.display_type)


def _plain_type(display_type: Callable[[Any], str], context: Any) -> str:
    return display_type(context).replace("list[", "").replace("]", "")


def command_group(help_text: str) -> typer.Typer:
    """An empty group for `@app.command()`; its plain help loads quickly."""
    app = typer.Typer(cls=_Group, add_completion=False, rich_markup_mode=None)
    app.callback(help=cleandoc(help_text))(lambda: None)
    return app
