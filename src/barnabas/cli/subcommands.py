"""A group of subcommands, set up alike for all."""

from inspect import cleandoc
from typing import Any

import typer
from typer.core import TyperGroup


class _Group(TyperGroup):
    """Shows its help when it is called without a subcommand."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ["--help"])


def command_group(help_text: str) -> typer.Typer:
    """An empty group for `@app.command()`, with plain help that starts quickly."""
    app = typer.Typer(cls=_Group, add_completion=False, rich_markup_mode=None)
    app.callback(help=cleandoc(help_text))(lambda: None)
    return app
