"""docs/configuration.md is generated from the tables of keys."""

from pathlib import Path

from barnabas.config.broker_keys import BROKER_KEYS
from barnabas.config.config_docs import configuration_page
from barnabas.config.topic_keys import TOPIC_KEYS

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == configuration_page(), (
        "write it with: python -m barnabas.config.config_docs > docs/configuration.md"
    )


def test_the_page_has_a_row_for_every_key() -> None:
    rows = [line for line in configuration_page().splitlines() if line.startswith("| `")]
    assert len(rows) == len(TOPIC_KEYS) + len(BROKER_KEYS)
    assert all(row.count("|") == 8 for row in rows)
