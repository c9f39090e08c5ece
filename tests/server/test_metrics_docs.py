"""The page on metrics is the one that the table gives, and names none that there is not."""

import re
from pathlib import Path

from barnabas.cli.cluster.cluster_dir import METRICS_PORTS_ABOVE
from barnabas.server.metrics.metric_table import METRICS
from barnabas.server.metrics.metrics_docs import metrics_page

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == metrics_page(), (
        "write it with: python -m barnabas.server.metrics.metrics_docs > docs/metrics.md"
    )


def test_rules_and_queries_of_the_page_name_metrics_that_are_there() -> None:
    named = re.findall(r"\bbarnabas_\w+", metrics_page())
    assert {name.removesuffix("_bucket") for name in named} == set(METRICS)


def test_the_ports_to_scrape_are_those_that_a_cluster_takes_by_itself() -> None:
    ports = re.findall(r'"127\.0\.0\.1:(\d+)"', metrics_page())
    assert [int(port) - METRICS_PORTS_ABOVE for port in ports] == [9092, 9093, 9094]


def test_every_metric_is_described_by_the_conventions_of_prometheus() -> None:
    for name, metric in METRICS.items():
        assert metric.kind in ("gauge", "counter", "histogram"), name
        assert name.endswith("_total") == (metric.kind == "counter"), name
        assert metric.meaning.endswith("."), name
        assert not re.search(r"_(ms|kb|percent)\b", name), name
