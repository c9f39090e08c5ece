"""Command groups, such as `barnabas topics`, with plain help."""

from inspect import cleandoc
from typing import Any

import typer
from typer.core import TyperGroup


class _Group(TyperGroup):
    """Prints its help when called without a subcommand."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ["--help"])


def command_group(help_text: str) -> typer.Typer:
    """An empty group for `@app.command()`; its plain help loads quickly."""
    app = typer.Typer(cls=_Group, add_completion=False, rich_markup_mode=None)
    app.callback(help=cleandoc(help_text))(lambda: None)
    return app
