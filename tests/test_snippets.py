"""Every fenced block of the documents: it is run, or read by what it is for, or says why not.

A page in `RUN_BY` has a test of its own. On the other pages a block's language says what happens:
commands are parsed by the command line, and run by test_snippets_run.py (`make long`) unless
`RUN_IN` names another test; everything else is read by a parser. A block without a known language
is refused.
"""

import configparser
import json
import re
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

# Commands that take minutes, need Spark or another machine, and the test that runs each. All others
# are run by test_snippets_run.py.
RUN_IN: Final = {
    "barnabas bench": "tests/bench",
    "barnabas pipeline": "tests/spark/test_docs_commands.py",
    "barnabas topics create orders &&": "tests/spark/test_docs_commands.py",
    "barnabas produce orders <": "tests/spark/test_docs_commands.py",
    "docker": "tests/release/test_deploy.py",
    "make": "tests/test_contributing.py",
    "pip": "tests/release/test_dist.py",
    "python3": "tests/release/test_dist.py",
    "/opt/barnabas/bin/pip": "tests/release/test_dist.py",
}
# Commands that are not ours. The last three are not run: they would change this machine.
OF_THE_SYSTEM: Final = ("echo", "jq", "kill", "curl", "kcat", "useradd", "install", "systemctl")
# The test that runs the programs and queries of a page.
PROGRAMS: Final = {
    "docs/quickstart.md": "tests/spark/test_docs_programs.py",
    "docs/spark.md": "tests/spark/test_docs_programs.py",
    "docs/tables.md": "tests/spark/test_docs_commands.py",
    "docs/transactions.md": "tests/test_snippets_run.py",
}


def single(line: str) -> Iterator[str]:
    """The commands of one line, without what feeds them and where their output goes."""
    for command in re.split(r" && | \| ", re.sub(r"\"\$\([^)]*\)\"|'[^']*'|\"[^\"]*\"", "X", line)):
        yield re.split(r" [<>] ", command)[0]


def test_every_block_has_a_language_that_this_test_reads() -> None:
    known = {"sh", "python", "sql", "json", "yaml", "ini", "properties", "promql", "text"}
    assert [block for block in BLOCKS if block.language not in known] == []


@pytest.mark.parametrize("test", sorted({*RUN_BY.values(), *RUN_IN.values(), *PROGRAMS.values()}))
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
