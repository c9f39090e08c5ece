"""The subcommands of `barnabas`, dispatched by typer, with its errors reworded.

A subcommand's module is imported on use, and imports heavy modules (the Kafka client, tables)
inside its functions.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from barnabas.cli.connecting import add_connection_options
from barnabas.cli.exit_codes import MISUSED, OK, CommandFailed, Misused
from barnabas.cli.run_until import invoked, signalled
from barnabas.cli.subcommands import PlainGroup, name_plainly

# The module of each command: it has a function of the command's name, or a group as `app`.
# Modules outside of `cli` are named as strings only, since `cli` must not import them.
_COMMANDS: Final[Mapping[str, str]] = {
    "server": "cli.server.server_command",
    "unregister": "cli.server.unregister_command",
    "cluster": "cli.cluster.cluster_command",
    "topics": "cli.topics.topics_command",
    "produce": "cli.io.produce_command",
    "consume": "cli.io.consume_command",
    "configs": "cli.admin.configs_command",
    "controller": "cli.admin.controller_command",
    "elect": "cli.admin.elect_command",
    "groups": "cli.groups.groups_command",
    "users": "cli.security.users_command",
    "tokens": "cli.security.tokens_command",
    "certs": "cli.security.certs_command",
    "reassign": "cli.reassign.reassign_command",
    "log": "cli.log.log_command",
    "txns": "cli.txns.txns_command",
    "acls": "cli.access.acls_command",
    "quotas": "cli.access.quotas_command",
    "registry": "cli.registry.registry_command",
    "doctor": "cli.doctor.doctor_command",
    "console": "console.console_command",
    "demo": "demo.demo_command",
    "pipeline": "spark.pipeline_command",
    "sim": "sim.sim_command",
    "bench": "bench.bench_command",
}
# Pydantic's error messages, and ours.
_PLAINLY: Final = (
    (re.compile(r"Value error, "), ""),
    (re.compile(r"Input should be a valid integer.*"), "must be an integer"),
    (
        re.compile(r"Input should be greater than or equal to (-?\d+(?:\.\d+)?)"),
        r"must be at least \1",
    ),
    (
        re.compile(r"Input should be less than or equal to (-?\d+(?:\.\d+)?)"),
        r"must be at most \1",
    ),
    (re.compile(r"Input should be "), "must be "),
)
_CONTEXT: Final[Mapping[str, Any]] = {"help_option_names": ["-h", "--help"]}


class Commands(PlainGroup):
    """The subcommands, each loaded on use."""

    def list_commands(self, ctx: object) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: object, cmd_name: str) -> Any:
        return _load(cmd_name) if cmd_name in _COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # Typer compares a mistyped name with these keys; no module is loaded for it.
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
    if _COMMANDS[name].startswith(("cli.", "console.")):
        add_connection_options(app)
    command = typer.main.get_command(app)
    command.name = name
    name_plainly(command)
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
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Apache Kafka's distributed log in Python: run brokers, and manage any Kafka cluster.

    \b
    Try:
      barnabas demo                                  watch a cluster and Spark for a minute
      barnabas server --data ./data                  run one broker
      barnabas cluster                               run three brokers that replicate
      barnabas topics create orders --partitions 3
      echo hello | barnabas produce orders
      barnabas consume orders --follow

    \b
    Exit codes:
      0 success   1 failure   2 usage error   130 Ctrl-C   143 SIGTERM   141 output closed
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Raises CommandFailed."""
    command = typer.main.get_command(app)
    try:
        result = command.main(list(arguments) or ["--help"], "barnabas", standalone_mode=False)
    except typer.Exit as ended:
        # Typer knows SIGINT only.
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
