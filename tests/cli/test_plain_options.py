"""Plain `barnabas server` options have the same meaning with and without typer."""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args, get_origin, get_type_hints

import pytest
import typer
from typer.testing import CliRunner

from barnabas.cli.server import server_command
from barnabas.cli.server.server_entry import OPTIONS, plain_options
from barnabas.cli.server.unregister_command import unregister
from barnabas.cli.server.unregister_entry import UNREGISTER_OPTIONS

# Modules that a broker must not load: each takes longer than the broker's own.
NOT_NEEDED = ("typer", "pydantic", "kazoo", "rich", "confluent_kafka", "pyspark", "hypothesis")


def as_typer_reads(arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    seen: dict[str, Any] = {}

    def run(*values: Any) -> int:
        names = ("config", "listen", "data", "node_id", "zookeeper", "override", "metrics")
        seen.update(zip(names, values, strict=True))
        return 0

    monkeypatch.setattr("barnabas.cli.server.server_run.server", run)
    app = typer.Typer()
    app.command()(server_command.server)
    assert CliRunner().invoke(app, list(arguments)).exit_code == 0
    return {name: value for name, value in seen.items() if value not in (None, ())}


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--listen", ":9092", "--data", "./d"],
        ["-l", "127.0.0.1:0", "-d", "/tmp/x", "-n", "7", "-z", "one:2181,two:2181/chroot"],
        ["--override", "a=b", "-o", "c=d=e", "--override", "f=g h"],
        ["--config", "server.properties", "--metrics", "127.0.0.1:9192", "--node-id", "0"],
    ],
)
def test_plain_options_mean_what_they_mean_to_typer(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plain_options(arguments) == as_typer_reads(arguments, monkeypatch)


@pytest.mark.parametrize(
    ("command", "options"),
    [(server_command.server, OPTIONS), (unregister, UNREGISTER_OPTIONS)],
)
def test_every_option_declared_for_typer_is_known_with_its_type(
    command: Callable[..., None], options: Mapping[str, tuple[str, type]]
) -> None:
    known = {}
    for name, hint in get_type_hints(command, include_extras=True).items():
        if name != "return":
            annotation, option = get_args(hint)
            (kind,) = (each for each in get_args(annotation) if each is not type(None))
            # In `Annotated`, the first argument of an option is its first flag, not a default.
            for flag in (option.default, *option.param_decls):
                known[flag] = name, get_origin(kind) or kind
    assert known == options


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--listen"],
        ["--listen", ""],
        ["--listen=:9092", "--data"],
        ["--listen", "--data"],
        ["--lisen", ":9092"],
        ["--node-id", "-1"],
        ["--node-id", "one"],
        ["--listen", ":9092", "--listen", ":9093"],
        ["--data", "d\udcff"],
        ["stray", "words"],
    ],
)
def test_other_command_lines_are_left_to_typer(arguments: list[str]) -> None:
    assert plain_options(arguments) is None


def test_a_broker_does_not_load_unneeded_modules() -> None:
    asked = (
        "import sys; from barnabas.cli import main, server;"
        f"print([name for name in {NOT_NEEDED} if name in sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert loaded.stdout == "[]\n", loaded.stderr
