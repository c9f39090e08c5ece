"""Alerts, dashboard and scrape configuration, judged by promtool where it is installed."""

import json
import shutil
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.release.test_deploy import DEPLOY, expressions, linted, rules, tool
from tests.support.snippets import of

RULES: Final = DEPLOY / "barnabas.rules.yml"
MINUTES: Final = 30
# The metrics of a healthy broker: what is constant, by name.
HEALTHY: Final = {
    "up": "1",
    "barnabas_active_controller": "1",
    "barnabas_offline_partitions": "0",
    "barnabas_unclean_leader_elections_total": "0",
    "barnabas_under_min_isr_partitions": "0",
    "barnabas_under_replicated_partitions": "0",
    "barnabas_offline_log_directories": "0",
    "barnabas_replica_failed_partitions": "0",
    "barnabas_loop_held_seconds_sum": "0",
    "barnabas_transactions_oldest_seconds": "0",
    "process_open_fds": "100",
    "process_max_fds": "1000",
}
# The fault of each alert, in promtool's notation: a value, or a first one and its growth a minute.
FAULTS: Final = {
    "BarnabasDown": ("up", "0"),
    "BarnabasNoLeader": ("barnabas_offline_partitions", "3"),
    "BarnabasNotOneController": ("barnabas_active_controller", "0"),
    "BarnabasRecordsMayBeLost": ("barnabas_unclean_leader_elections_total", "0+1"),
    "BarnabasAcksAllRefused": ("barnabas_under_min_isr_partitions", "2"),
    "BarnabasUnderReplicated": ("barnabas_under_replicated_partitions", "2"),
    "BarnabasLogDirectoryFailed": ("barnabas_offline_log_directories", "1"),
    "BarnabasFollowersStopped": ("barnabas_replica_failed_partitions", "1"),
    "BarnabasLoopHeld": ("barnabas_loop_held_seconds_sum", "0+10"),
    "BarnabasDescriptors": ("process_open_fds", "900"),
    "BarnabasTransactionOpenForLong": ("barnabas_transactions_oldest_seconds", "1000"),
}


@pytest.fixture(scope="module")
def promtool() -> str:
    return tool("promtool", "apt-get install prometheus")


def test_the_alerts_pass_promtool(promtool: str) -> None:
    linted(promtool, "check", "rules", RULES)


def test_the_queries_of_the_dashboard_pass_promtool(promtool: str, tmp_path: Path) -> None:
    """As recording rules: promtool of Prometheus 2 checks no query alone."""
    recorded = [{"record": f"q{n}", "expr": expr} for n, expr in enumerate(expressions())]
    queries = {"groups": [{"name": "dashboard", "rules": recorded}]}
    (tmp_path / "queries.yml").write_text(json.dumps(queries))
    linted(promtool, "check", "rules", tmp_path / "queries.yml")


@pytest.mark.parametrize("page", ["docs/monitoring.md", "docs/metrics.md"])
def test_the_configuration_of_a_page_passes_promtool(
    promtool: str, page: str, tmp_path: Path
) -> None:
    (text,) = (each.text for each in of("yaml", page=page) if "scrape_configs" in each.text)
    (tmp_path / "prometheus.yml").write_text(text)
    shutil.copy(RULES, tmp_path)
    linted(promtool, "check", "config", tmp_path / "prometheus.yml")


def test_every_alert_has_a_fault_that_it_is_for() -> None:
    assert [rule["alert"] for rule in rules()] == list(FAULTS)


def alerting(metric: str | None, values: str, alerts: list[str]) -> dict[str, object]:
    """A test of promtool: these metrics for half an hour, then these alerts and no others."""
    given = HEALTHY | ({metric: values} if metric else {})
    return {
        "interval": "1m",
        "input_series": [
            {
                "series": f'{name}{{job="barnabas",instance="kafka-1:9192"}}',
                "values": f"{of}x{MINUTES}",
            }
            for name, of in given.items()
        ],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{MINUTES}m",
                "exp_samples": [
                    {"labels": f'{{alertname="{each}"}}', "value": 1} for each in alerts
                ],
            }
        ],
    }


def test_each_alert_fires_for_its_fault_alone(promtool: str, tmp_path: Path) -> None:
    faults = [alerting(metric, values, [alert]) for alert, (metric, values) in FAULTS.items()]
    file = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [alerting(None, "", []), *faults],
    }
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(file))
    linted(promtool, "test", "rules", tmp_path / "tests.yml")
