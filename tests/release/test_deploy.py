"""Files for operators: they name metrics, properties and options that exist."""

import configparser
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from barnabas.cli.commands import app
from barnabas.cli.server.server_entry import OPTIONS
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.properties import parse_properties
from barnabas.server.metrics.metric_table import METRICS
from tests.support.documents import ROOT, document

DEPLOY = ROOT / "deploy"
OF_A_HISTOGRAM = re.compile(r"_(bucket|sum|count)$")
# Metrics of Prometheus itself and of its client library for Python.
OF_THE_LIBRARY = {
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "up",
}


def rules() -> list[dict[str, Any]]:
    parsed = yaml.safe_load((DEPLOY / "barnabas.rules.yml").read_text())
    return [rule for group in parsed["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    found: list[dict[str, Any]] = dashboard["panels"]
    return found


def expressions() -> list[str]:
    drawn = [target["expr"] for panel in panels() for target in panel["targets"]]
    return drawn + [rule["expr"] for rule in rules()]


@pytest.mark.parametrize("expression", expressions())
def test_every_metric_of_an_expression_exists(expression: str) -> None:
    named = re.findall(r"\b(?:barnabas_\w+|process_\w+|up\b)", expression)
    assert named
    for name in named:
        plain = name if name in METRICS else OF_A_HISTOGRAM.sub("", name)
        assert plain in METRICS or name in OF_THE_LIBRARY, name


def test_every_label_of_an_expression_is_the_metrics() -> None:
    for expression in expressions():
        for labels in re.findall(r"\bby \(([^)]*)\)", expression):
            known = {"instance", "le"}
            for name in re.findall(r"barnabas_\w+", expression):
                metric = METRICS.get(name) or METRICS[OF_A_HISTOGRAM.sub("", name)]
                known |= set(metric.labels)
            assert {label.strip() for label in labels.split(",")} <= known, expression


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) > 5
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "todo"}


def test_panels_do_not_overlap() -> None:
    places = [(each["gridPos"]["x"], each["gridPos"]["y"]) for each in panels()]
    assert len(places) == len(set(places))


def test_the_properties_of_three_hosts_are_accepted() -> None:
    properties = parse_properties((DEPLOY / "server.properties").read_text())
    config = BrokerConfig.from_properties(properties)
    assert properties["min.insync.replicas"] == "2"
    assert config is not None


def test_the_unit_of_systemd_runs_commands_that_exist() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment] # - systemd's keys have capitals
    unit.read(DEPLOY / "barnabas.service")
    assert " barnabas server --config " in unit["Service"]["ExecStart"].replace("bin/", " ")
    assert unit["Service"]["ExecStopPost"].startswith("-")
    assert " barnabas unregister --config " in unit["Service"]["ExecStopPost"].replace("bin/", " ")


def test_the_containers_are_given_options_that_exist() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    brokers = {name: each for name, each in services.items() if name.startswith("kafka-")}
    assert len(brokers) == 3
    for name, each in brokers.items():
        command, *options = each["command"]
        assert command == "server"
        assert {option.partition("=")[0] for option in options} <= set(OPTIONS)
        assert any(f"://{name}:" in option for option in options)
        overrides = [each.partition("=")[2] for each in options if each.startswith("--override")]
        pairs = dict(each.split("=", 1) for each in overrides)
        BrokerConfig.from_properties({"broker.id": "1", **pairs})


def test_the_image_runs_the_command_that_is_installed() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    (options,) = re.findall(r"^CMD (.*)$", text, re.MULTILINE)
    command, *rest = json.loads(options)
    assert (command, set(rest[::2]) <= set(OPTIONS)) == ("server", True)
    assert 'ENTRYPOINT ["barnabas"]' in text
    assert "USER 1000" in text


def tool(name: str, how: str) -> str:
    """The path of a linter: on the PATH, or among the tools of a release."""
    here = [str(path) for path in ROOT.glob(".venv-release*/bin")]
    found = shutil.which(name) or shutil.which(name, path=":".join(here))
    if found is None:
        pytest.skip(f"{name} is not installed: {how}")
    return found


def linted(*command: str | Path) -> None:
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_image_passes_hadolint() -> None:
    linted(tool("hadolint", "make dist installs it on Linux"), DEPLOY / "Dockerfile")


def test_the_compose_file_passes_compose() -> None:
    file = ("-f", DEPLOY / "compose.yaml", "config", "--quiet")
    docker = shutil.which("docker")
    if (
        docker
        and subprocess.run([docker, "compose", "version"], capture_output=True).returncode == 0
    ):
        linted(docker, "compose", *file)
    else:
        linted(tool("docker-compose", "apt-get install docker-compose"), *file)


@pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux's")
def test_the_unit_passes_systemd_analyze(tmp_path: Path) -> None:
    """The program that the unit starts is replaced: it is not installed here."""
    analyze = tool("systemd-analyze", "apt-get install systemd")
    unit = (
        (DEPLOY / "barnabas.service").read_text().replace("/opt/barnabas/bin/barnabas", "/bin/true")
    )
    (tmp_path / "barnabas.service").write_text(unit.replace("User=barnabas\n", ""))
    linted(analyze, "verify", tmp_path / "barnabas.service")


def test_the_page_for_operators_names_every_file() -> None:
    page = document("docs/operate.md")
    files: list[Path] = [each for each in DEPLOY.iterdir() if each.is_file()]
    assert [each.name for each in files if f"../deploy/{each.name}" not in page] == []


def commands_of(page: str) -> list[str]:
    return sorted(set(re.findall(r"barnabas ((?:[a-z-]+ ?)+[^`\n|]*)", page)))


@pytest.mark.parametrize("line", commands_of(document("docs/operate.md")))
def test_every_command_of_the_page_for_operators_exists(line: str) -> None:
    node: Any = typer.main.get_command(app)
    words = line.split()
    while words and not words[0].startswith("-") and hasattr(node, "get_command"):
        node = node.get_command(None, words.pop(0))
        assert node is not None, line
    options = {option for parameter in node.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= options
