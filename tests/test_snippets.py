"""Every fenced block of the documents: it is run, or read by what it is for, or says why not.

A page in `RUN_BY` has a test of its own. On the other pages a block's language says what happens:
commands are parsed by the command line, and run on a real cluster (`make long`) unless `RUN_IN`
names the test that runs the like; everything else is read by a parser. A block without a known
language is refused.
"""

import ast
import configparser
import json
import re
import shlex
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import typer
import yaml
from confluent_kafka import Consumer, TopicPartition

from barnabas.cli.commands import app
from barnabas.cli.main import run
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.properties import parse_properties
from barnabas.server.metrics.metric_table import METRICS
from barnabas.testing import Cluster
from tests.support.documents import ROOT, Running

FENCE: Final = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
# Pages whose blocks are all run by one test.
RUN_BY: Final = {
    "docs/tour.md": "tests/test_tour.py",
    "docs/testing.md": "tests/testing/test_docs_example.py",
    "docs/states.md": "tests/server/test_state_diagrams.py",
    "docs/architecture.md": "tests/test_architecture.py",
}
# Commands that run for long, need Spark or another cluster, and the test that runs each.
RUN_IN: Final = {
    "barnabas server": "tests/test_readme.py",
    "barnabas cluster": "tests/cluster/test_starting.py",
    "barnabas topics list -b 127.0.0.1:9092": "tests/testing/test_secure_cluster.py",
    "barnabas topics create orders &&": "tests/spark/test_project_run.py",
    "barnabas produce orders <": "tests/spark/test_project_run.py",
    "barnabas unregister": "tests/cluster/test_unregistered.py",
    "barnabas bench": "tests/bench",
    "barnabas console": "tests/console",
    "barnabas registry": "tests/cli/registry",
    "barnabas sim": "tests/sim",
    "barnabas controller --follow": "tests/cli/test_controller_command.py",
    "barnabas groups describe billing --follow": "tests/cli/test_groups_command.py",
    "barnabas reassign": "tests/cli/test_reassign_command.py",
    "barnabas log": "tests/cli/test_log_dump.py",
    "barnabas pipeline": "tests/spark",
    "barnabas txns": "tests/cli/test_txns_command.py",
    "barnabas users": "tests/testing/test_secure_cluster.py",
    "barnabas certs": "tests/testing/test_secure_cluster.py",
    "barnabas doctor --data": "tests/cli/test_doctor.py",
    "barnabas acls": "tests/cli/test_access_commands.py",
    "barnabas produce users": "tests/cli/test_produce_consume.py",
    "barnabas produce photos": "tests/cli/test_produce_consume.py",
    "docker": "tests/release/test_deploy.py",
    "make": "tests/test_contributing.py",
    "kill": "tests/cluster/test_killed.py",
    "kcat": "tests/clients/test_kcat.py",
    "curl": "tests/cluster/test_metrics.py",
    "pip": "tests/release/test_dist.py",
    "python3": "tests/release/test_dist.py",
    "/opt/barnabas/bin/pip": "tests/release/test_dist.py",
}
# Commands that are not ours: they are not run, because they would change this machine.
OF_THE_SYSTEM: Final = ("echo", "jq", "useradd", "install", "systemctl")


class Block(NamedTuple):
    page: str
    language: str
    text: str


def blocks() -> list[Block]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [
        Block(name, info.split()[0] if info else "", textwrap.dedent(text))
        for path in pages
        for _, info, text in FENCE.findall(path.read_text())
        if (name := path.relative_to(ROOT).as_posix()) != "README.md" and name not in RUN_BY
    ]


BLOCKS: Final = blocks()


def of(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages]


def commands() -> list[str]:
    """Every command line: without comments, and with `\\` joined."""
    lines = [
        re.split(r"\s+#", line)[0].rstrip(" &")
        for block in of("sh")
        for line in re.sub(r" *\\\n *", " ", block.text).splitlines()
    ]
    return list(dict.fromkeys(line for line in lines if line))


def single(line: str) -> Iterator[str]:
    """The commands of one line, without what feeds them and where their output goes."""
    for command in re.split(r" && | \| ", re.sub(r"\"\$\([^)]*\)\"|'[^']*'|\"[^\"]*\"", "X", line)):
        yield re.split(r" [<>] ", command)[0]


def test_every_block_has_a_language_that_this_test_reads() -> None:
    known = {"sh", "python", "sql", "json", "yaml", "ini", "properties", "promql", "text"}
    assert [block for block in BLOCKS if block.language not in known] == []


@pytest.mark.parametrize("test", sorted({*RUN_BY.values(), *RUN_IN.values()}))
def test_every_test_that_runs_a_snippet_exists(test: str) -> None:
    assert (ROOT / test).exists()


# -- commands -------------------------------------------------------------------


def test_a_command_can_be_copied_with_its_comment() -> None:
    for block in of("sh"):
        assert not re.search(r"\S {2,}(?![#|\\])\S", block.text), block


@pytest.mark.parametrize("line", commands())
def test_every_command_and_option_exists(line: str) -> None:
    for command in single(line):
        name, *words = command.split()
        if name != "barnabas":
            assert name in (*OF_THE_SYSTEM, *RUN_IN), name
            continue
        node: Any = typer.main.get_command(app)
        while words and not words[0].startswith("-") and hasattr(node, "get_command"):
            node = node.get_command(None, words.pop(0))
            assert node is not None, line
        options = {option for parameter in node.params for option in parameter.opts}
        assert {word for word in words if word.startswith("-") and word != "-"} <= options


def on_a_cluster() -> list[str]:
    return [
        line
        for line in commands()
        if line.startswith(("barnabas ", "echo "))
        and not any(line.startswith(prefix) or f"| {prefix}" in line for prefix in RUN_IN)
    ]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_commands_run_on_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(on_a_cluster()) > 20
    with Cluster(3, config={"group.initial.rebalance.delay.ms": "0"}) as cluster:
        running = Running(cluster.bootstrap_servers, tmp_path)
        for topic in ("orders", "payments", "users", "shop-revenue"):
            cluster.create_topic(topic, partitions=2)
        monkeypatch.setenv("BARNABAS_BOOTSTRAP", cluster.bootstrap_servers)
        for line in on_a_cluster():
            if "billing" in line:
                _commit(cluster, "billing", "orders")
            local = re.sub(r" -b \S+| \| jq .*", "", line)
            if "|" in local:
                running.run("sh", "-euc", local)
            else:
                assert run(shlex.split(local)[1:]) == 0, line


def _commit(cluster: Cluster, group: str, topic: str) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group}
    with closing(Consumer(settings)) as consumer:
        offsets = [TopicPartition(topic, number, 0) for number in range(2)]
        consumer.commit(offsets=offsets, asynchronous=False)


@pytest.mark.long
def test_the_program_of_transactions_runs() -> None:
    (block,) = (each for each in of("python") if each.page == "docs/transactions.md")
    with Cluster(1) as cluster:
        cluster.create_topic("payments")
        exec(block.text.replace("127.0.0.1:9092", cluster.bootstrap_servers), {})


# -- what is not a command --------------------------------------------------------


@pytest.mark.parametrize("block", of("python"), ids=lambda block: block.page)
def test_programs_are_python(block: Block) -> None:
    ast.parse(block.text)


@pytest.mark.parametrize("block", of("properties"), ids=lambda block: block.page)
def test_properties_are_known(block: Block) -> None:
    given = parse_properties(block.text)
    known = BrokerConfig.from_properties({"broker.id": "0"})
    assert given
    assert known is not None
    for key in given:
        plain = re.sub(r"^listener\.name\.\w+\.(?:[\w-]+\.(?=sasl\.jaas))?", "", key)
        assert f"`{plain}`" in (ROOT / "docs/configuration.md").read_text(), key


@pytest.mark.parametrize("block", of("json", "yaml", "ini", "promql"), ids=lambda b: b.page)
def test_data_is_read_by_its_parser(block: Block) -> None:
    match block.language:
        case "json":
            assert json.loads(block.text)
        case "yaml":
            assert yaml.safe_load(block.text)
        case "ini":
            configparser.ConfigParser(interpolation=None).read_string(block.text)
        case _:
            for name in re.findall(r"barnabas_\w+", block.text):
                assert re.sub(r"_(bucket|sum|count)$", "", name) in METRICS
