"""The `barnabas` command: help, exit codes, and one line per usage error."""

import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.cli.conftest import Barnabas, Send, spawn
from tests.support.broker import BrokerProcess

COMMANDS = (
    ("server",),
    ("topics",),
    ("configs",),
    ("log",),
    ("topics", "create"),
    ("topics", "list"),
    ("topics", "describe"),
    ("topics", "alter"),
    ("topics", "delete"),
    ("produce",),
    ("consume",),
    ("configs", "describe"),
    ("configs", "alter"),
    ("log", "dump"),
    ("log", "verify"),
    ("log", "stats"),
    ("bench",),
)


@pytest.mark.parametrize("command", [(), *COMMANDS], ids=lambda c: " ".join(c) or "barnabas")
def test_help_cuts_no_sentence_and_names_types_plainly(
    command: tuple[str, ...], offline: Barnabas
) -> None:
    shown = offline(*command, "--help").out.decode()
    _, _, commands = shown.partition("Commands:")
    assert "..." not in commands
    assert "<list" not in shown


def test_hints_name_the_program_as_it_was_started(
    offline: Barnabas, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", [".venv/bin/barnabas", "topics"])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "(see .venv/bin/barnabas topics --help)" in offline("topics", "nonsense").err
    (tmp_path / "barnabas").write_text("")
    (tmp_path / "barnabas").chmod(0o755)
    assert "(see barnabas topics --help)" in offline("topics", "nonsense").err


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_examples(command: tuple[str, ...], offline: Barnabas) -> None:
    ended = offline(*command, "--help")
    assert ended.code == 0
    assert f"Usage: barnabas {' '.join(command)}" in ended.out.decode()
    assert "Examples:" in ended.out.decode()


@pytest.mark.parametrize("group", [(), ("topics",), ("configs",), ("log",)], ids=" ".join)
def test_a_group_alone_shows_its_help(group: tuple[str, ...], offline: Barnabas) -> None:
    ended = offline(*group)
    assert (ended.code, ended.err) == (0, "")
    assert "Commands:" in ended.out.decode()


def test_the_version_is_the_packages(offline: Barnabas) -> None:
    assert offline("--version").lines == [f"barnabas {version('barnabas')}"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["topcis"], "No such command 'topcis'. Did you mean 'topics'?"),
        (["topics", "crate"], "Did you mean"),
        (["consume"], "Missing argument 'TOPIC'"),
        (["consume", "t", "--colour"], "No such option: --colour"),
        (["consume", "t", "-c", "0"], "'-c': must be at least 1 (see"),
        (["consume", "t", "-c", "many"], "'-c': must be an integer (see"),
        (["consume", "t", "-o", "middle"], "-o middle: expected beginning (earliest), end"),
        (["consume", "t", "-o", "s@yesterday"], "-o s@yesterday: expected milliseconds"),
        (["consume", "t", "-o", "e@2021"], "-o e@2021: a number means milliseconds"),
        (
            ["consume", "t", "--print", "when"],
            "unknown field; expected topic, partition, offset, timestamp, time",
        ),
        (["consume", ""], "topic name is empty"),
        (["produce", "", "x"], "topic name is empty"),
        (["topics", "create", ""], "topic name is empty"),
        (["topics", "describe", "t", ""], "topic name is empty"),
        (["topics", "delete", "t", "", "-y"], "topic name is empty"),
        (["configs", "describe", "--topic", ""], "topic name is empty"),
        (["consume", "t", "-f", "%q"], "unknown formatter %q"),
        (["consume", "t", "-f", "%s", "-J"], "only one of --format, --json and --print"),
        (["consume", "t", "--follow", "-e"], "either --follow or --exit"),
        (["produce", "t", "-H", "nothing"], "-H nothing: expected KEY=VALUE"),
        (["produce", "t", "-t", "noon"], "-t noon: expected milliseconds"),
        (["produce", "t", "-D", ""], "delimiter is empty"),
        (["produce", "t", "-z", "rar"], "'-z': 'rar' is not one of"),
        (["produce", "t", "-X", "message.max.bytes=many"], "expected a number of bytes"),
        (["produce", "t", "m", "--whole"], "either as arguments or as files"),
        (["topics", "create", "t", "-p", "0"], "must be at least 1"),
        (["topics", "create", "t", "-p", "3000000000"], "must be at most 100000"),
        (["produce", "t", "-t", "99999999999999999999", "x"], "expected milliseconds"),
        (["consume", "t", "-p", "0-999999999"], "expected partitions"),
        (["topics", "create", "t", "-c", "x"], "--config x: expected KEY=VALUE"),
        (["topics", "alter", "t"], "nothing to alter"),
        (["topics", "list", "-b", "host:port"], "expected HOST:PORT"),
        (["topics", "list", "-b", "host:99999"], "expected HOST:PORT"),
        (["topics", "list", "-X", "no.such=1"], 'No such configuration property: "no.such"'),
        (["configs", "describe"], "either --topic NAME or --broker ID"),
        (["configs", "alter", "--topic", "t"], "nothing to alter"),
        (["server", "--listen", "nowhere"], "expected HOST:PORT"),
        (["server", "--override", "x"], "--override x: expected key=value"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_a_usage_error_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, offline: Barnabas
) -> None:
    ended = offline(*arguments)
    assert (ended.code, ended.out) == (2, b"")
    assert message in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("bootstrap", ["127.0.0.1:1", "no-such-host.invalid:9092"])
def test_an_unreachable_broker_is_reported_in_one_line_with_a_remedy(
    bootstrap: str, offline: Barnabas
) -> None:
    ended = offline("topics", "list", "-b", bootstrap)
    assert (ended.code, ended.out) == (1, b"")
    assert f"no Kafka broker answers at {bootstrap} (" in ended.err
    assert ("barnabas server" in ended.err) == ("Connection refused" in ended.err)
    assert "-b HOST:PORT[,...] or in BARNABAS_BOOTSTRAP" in ended.err
    assert ended.err.count("\n") == 1


def test_a_missing_extra_is_reported_in_one_line_with_a_remedy(
    offline: Barnabas, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    ended = offline("pipeline", "table", "orders", "--to", tmp_path / "t", "-b", "127.0.0.1:1")
    assert (ended.code, ended.out) == (1, b"")
    assert "deltalake is not installed" in ended.err
    assert "pip install 'barnabas[spark]'" in ended.err
    assert ended.err.count("\n") == 1


def test_help_and_server_options_load_neither_client_nor_tables() -> None:
    script = (
        "import sys; from barnabas.cli.main import run; run(['--help']); run(['server', '-h']);"
        "print([m for m in ('confluent_kafka', 'rich', 'kio', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_closed_output_ends_the_command_quietly(
    topic: str, barnabas: Barnabas, send: Send, broker: BrokerProcess
) -> None:
    send(topic, *range(1000))
    with spawn("consume", topic, "--follow", broker=broker) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        send(topic, "x" * 100_000, "x" * 100_000)
        assert process.stderr.read() == b""
        assert process.wait() == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_output_is_reported_in_one_line(
    topic: str, send: Send, broker: BrokerProcess
) -> None:
    send(topic, "x")
    for command in (["consume", topic], ["topics", "list"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [sys.executable, "-m", "barnabas.cli.main", *command, "-b", broker.bootstrap],
                stdout=full,
                stderr=subprocess.PIPE,
            )
        assert done.returncode == 1
        assert done.stderr == b"barnabas: output: No space left on device\n"


def test_an_argument_that_is_not_utf8_is_reported_in_one_line(barnabas: Barnabas) -> None:
    ended = barnabas("topics", "create", "\udcff")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "must be valid UTF-8" in ended.err


def test_ctrl_c_ends_quietly_with_130(
    topic: str, barnabas: Barnabas, send: Send, broker: BrokerProcess
) -> None:
    send(topic, "there already")
    with spawn("consume", topic, "--follow", broker=broker) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"there already\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
        assert process.wait() == 130


STOPPED_WHILE_IT_LOADS = """
import os, signal, sys

class Stopped:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGTERM)

sys.meta_path.insert(0, Stopped())
from barnabas.cli.main import run, take_signals
take_signals()
sys.exit(run(["topics", "list"]))
"""


@pytest.mark.parametrize(
    "module", ["typer", "barnabas.cli.topics.topics_command", "confluent_kafka"]
)
def test_a_command_stopped_while_it_loads_prints_nothing(module: str) -> None:
    command = [sys.executable, "-c", STOPPED_WHILE_IT_LOADS, module]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (143, b"", b"")


def test_a_command_run_inside_another_program_leaves_its_signal_handlers_alone(
    offline: Barnabas, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("barnabas.cli.client.ClusterClients.admin", interrupted)
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert offline("topics", "list").code == 130
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
