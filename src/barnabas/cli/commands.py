"""The subcommands of `barnabas`, found by typer, with its complaints in plain words.

A subcommand's module is imported when it is used, and imports what is heavy (the Kafka client,
tables) inside its functions.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from barnabas.cli.exit_codes import MISUSED, OK, CommandFailed, Misused
from barnabas.cli.run_until import invoked, signalled

# The module of each: it has a function of the command's name, or a group of commands as `app`.
# A dot before it leads out of this folder, to a part that this one must not import.
_COMMANDS: Final[Mapping[str, str]] = {
    "server": "cli.server.server_command",
    "cluster": "cli.cluster.cluster_command",
    "topics": "cli.topics.topics_command",
    "produce": "cli.io.produce_command",
    "consume": "cli.io.consume_command",
    "configs": "cli.admin.configs_command",
    "controller": "cli.admin.controller_command",
    "elect": "cli.admin.elect_command",
    "groups": "cli.groups.groups_command",
    "reassign": "cli.reassign.reassign_command",
    "log": "cli.log.log_command",
    "demo": "demo.demo_command",
    "pipeline": "spark.pipeline_command",
    "sim": "sim.sim_command",
    "bench": "bench.bench_command",
}
# What typer's checks of types say, and how a person would.
_PLAINLY: Final = (
    (re.compile(r"Value error, "), ""),
    (re.compile(r"Input should be a valid integer.*"), "it must be a whole number"),
    (
        re.compile(r"Input should be greater than or equal to (-?\d+(?:\.\d+)?)"),
        r"it must be \1 or more",
    ),
    (
        re.compile(r"Input should be less than or equal to (-?\d+(?:\.\d+)?)"),
        r"it must be \1 or less",
    ),
    (re.compile(r"Input should be "), "it must be "),
)
_CONTEXT: Final[Mapping[str, Any]] = {"help_option_names": ["-h", "--help"]}


class Commands(TyperGroup):
    """The subcommands, each loaded by its name alone."""

    def list_commands(self, ctx: object) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: object, cmd_name: str) -> Any:
        return _load(cmd_name) if cmd_name in _COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # The names are what typer compares a mistyped one with; nothing is loaded for it.
        self.commands = dict.fromkeys(_COMMANDS, self)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        return invoked(super().invoke, ctx)


def _load(name: str) -> Any:
    module = import_module(f"barnabas.{_COMMANDS[name]}")
    app: typer.Typer | None = getattr(module, "app", None)
    if app is None:
        function: Callable[..., None] = getattr(module, name)
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(name, context_settings={**_CONTEXT})(function)
    command = typer.main.get_command(app)
    command.name = name
    command.context_settings = {**_CONTEXT, **command.context_settings}
    return command


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"barnabas {version('barnabas')}")
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    add_completion=True,
    rich_markup_mode=None,
    context_settings={**_CONTEXT},
    no_args_is_help=False,
)


@app.callback()
def barnabas(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print it and end."),
    ] = False,
) -> None:
    """Apache Kafka's distributed log in Python: run a broker, and work with any Kafka cluster.

    \b
    Try:
      barnabas demo                                  see a cluster and Spark at work, in a minute
      barnabas server --data ./data                  run one
      barnabas cluster                               run three, that copy from each other
      barnabas topics create orders --partitions 3
      echo hello | barnabas produce orders
      barnabas consume orders --follow

    \b
    Exit codes:
      0 done   1 failed   2 wrong command line   130 Ctrl-C   143 SIGTERM   141 output closed
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command line and tell its exit code; raises CommandFailed."""
    command = typer.main.get_command(app)
    try:
        result = command.main(list(arguments) or ["--help"], "barnabas", standalone_mode=False)
    except typer.Exit as ended:
        # typer knows of one signal only.
        is_signalled = isinstance(ended.__cause__, KeyboardInterrupt)
        return signalled() if is_signalled else ended.exit_code
    except typer.Abort:
        return signalled()
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "barnabas"
        kind = Misused if error.exit_code == MISUSED else CommandFailed
        message = _plain(error.format_message()).rstrip(".")
        raise kind(f"{message} (see {path} --help)") from None
    return result if isinstance(result, int) else OK


def _plain(message: str) -> str:
    for pattern, words in _PLAINLY:
        message = pattern.sub(words, message)
    return message
