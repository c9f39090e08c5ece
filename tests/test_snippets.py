"""Every fenced block of the documents: it is run, or read by what it is for, or says why not.

A page in `RUN_BY` has a test of its own. On the other pages a block's language says what happens:
commands are parsed by the command line, and run by test_snippets_run.py (`make long`) unless
`RUN_IN` names another test or they measure; everything else is read by a parser. A block without a
known language is refused.
"""

import configparser
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from typing import Any, Final

import pytest
import typer
import yaml

from barnabas.cli.commands import app
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.properties import parse_properties
from barnabas.server.metrics.metric_table import METRICS
from tests.support.documents import ROOT
from tests.support.snippets import BLOCKS, RUN_BY, Block, commands, of

# Commands that need Spark, another machine or a release, and the test that runs each. All others
# are run by test_snippets_run.py.
RUN_IN: Final = {
    "barnabas pipeline": "tests/spark/test_docs_commands.py",
    "barnabas topics create orders &&": "tests/spark/test_docs_commands.py",
    "barnabas produce orders <": "tests/spark/test_docs_commands.py",
    "docker compose": "tests/release/test_hosts.py",
    "useradd": "tests/release/test_hosts.py",
    "install": "tests/release/test_hosts.py",
    "systemctl": "tests/release/test_hosts.py",
    "python3": "tests/release/test_dist.py",
    "/opt/barnabas/bin/pip": "tests/release/test_dist.py",
    "pip": "tests/release/test_stranger.py",
}
# Commands that are not run as they stand: they measure for minutes to hours, and need a machine
# without other load. Here their options and values are parsed, and make prints what it would run;
# these tests run the same with small sizes.
MEASURING: Final = {
    "barnabas bench": "tests/bench",
    "make bench": "tests/bench/test_bench_guard.py",
}
# The programs that test_snippets_run.py runs.
PROGRAMS_RUN: Final = ("barnabas", "echo", "jq", "kill", "curl", "kcat")
# The test that runs the programs and queries of a page.
PROGRAMS: Final = {
    "docs/quickstart.md": "tests/spark/test_docs_programs.py",
    "docs/spark.md": "tests/spark/test_docs_programs.py",
    "docs/tables.md": "tests/spark/test_docs_commands.py",
    "docs/transactions.md": "tests/test_snippets_run.py",
}


def single(line: str) -> Iterator[list[str]]:
    """The words of each command of one line, without what feeds it and where its output goes."""
    line = re.sub(r"\$\([^)]*\)", "X", line)
    for command in _split(shlex.split(line), ("&&", "|")):
        yield next(_split(command, ("<", ">")))


def _split(words: list[str], at: tuple[str, ...]) -> Iterator[list[str]]:
    part: list[str] = []
    for word in words:
        if word in at:
            yield part
            part = []
        else:
            part.append(word)
    yield part


def test_every_block_has_a_language_that_this_test_reads() -> None:
    known = {"sh", "python", "sql", "json", "yaml", "ini", "properties", "promql", "text"}
    assert [block for block in BLOCKS if block.language not in known] == []


@pytest.mark.parametrize(
    "test",
    sorted({*RUN_BY.values(), *RUN_IN.values(), *MEASURING.values(), *PROGRAMS.values()}),
)
def test_every_test_that_runs_a_snippet_exists(test: str) -> None:
    assert (ROOT / test).exists()


# -- commands -------------------------------------------------------------------


def test_a_command_can_be_copied_with_its_comment() -> None:
    for block in of("sh"):
        assert not re.search(r"\S {2,}(?![#|\\])\S", block.text), block


@pytest.mark.parametrize("line", commands())
def test_every_command_takes_its_options_and_values(line: str) -> None:
    """Commands that another test runs are parsed here, too: it takes no time."""
    for name, *words in single(line):
        if name != "barnabas":
            continue
        node: Any = typer.main.get_command(app)
        context = node.context_class(node, info_name=name)
        while words and not words[0].startswith("-") and hasattr(node, "get_command"):
            name = words.pop(0)
            node = node.get_command(context, name)
            assert node is not None, line
            if hasattr(node, "get_command"):
                context = node.context_class(node, parent=context, info_name=name)
        node.make_context(name, words, parent=context)


@pytest.mark.parametrize("line", commands())
def test_every_command_is_run_by_a_test_or_measures(line: str) -> None:
    for command in map(" ".join, single(line)):
        named = any(f"{command} ".startswith(f"{name} ") for name in (*PROGRAMS_RUN, *RUN_IN))
        assert named or command.startswith(tuple(MEASURING)), command


@pytest.mark.parametrize("line", [line for line in commands() if line.startswith("make ")])
def test_make_has_the_target(line: str) -> None:
    command = [*shlex.split(line), "--dry-run"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "barnabas bench" in ran.stdout


# -- what is not a command --------------------------------------------------------


def test_the_programs_of_a_page_are_run_by_a_test() -> None:
    assert {block.page for block in of("python", "sql")} == set(PROGRAMS)


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
