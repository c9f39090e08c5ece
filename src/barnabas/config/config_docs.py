"""The writer of docs/configuration.md, from the tables: `python -m barnabas.config.config_docs`."""

import sys
from collections.abc import Callable, Iterable, Iterator

from barnabas.config.broker_keys import TABLES
from barnabas.config.config_key import ConfigKey
from barnabas.config.config_table import read_keys
from barnabas.config.topic_keys import SYNONYMS, TOPIC_KEYS

_OPENING = """\
# Configuration

Barnabas uses Kafka's property names and Kafka's file format: `barnabas server --config` reads
`server.properties`, `--override key=value` sets single values, and topics and running brokers are
configured by the names that `kafka-configs` uses. Types, defaults and limits are Kafka 3.9's.

If a broker key is set in several places, the first of these wins: dynamic for this broker, dynamic
for all brokers, the properties file, the default. A topic key can be set at any time; while it is
not set, the topic uses the first of its broker keys that has a value.

*Dynamic* says whether a running broker accepts a new value: for one broker only (per-broker), or
also for all (cluster-wide). *Acts now* says whether the key has an effect; every other key is
accepted, validated and described, but its part of the broker does not exist yet.

A property that is not a known key is kept, described, and logged at start, with the key that may
have been meant.

*Written by `python -m barnabas.config.config_docs`; a test keeps it current.*
"""


def configuration_page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _OPENING
    yield "## Topics\n"
    yield from _table(TOPIC_KEYS.values(), "Broker keys", _broker_keys)
    for heading, table in TABLES.items():
        yield f"\n## Brokers: {heading[0].lower()}{heading[1:]}\n"
        yield from _table(read_keys(table).values(), "Dynamic", lambda key: key.update.value)


def _table(
    keys: Iterable[ConfigKey], column: str, cell: Callable[[ConfigKey], str]
) -> Iterator[str]:
    yield f"| Key | Type | Default | Limit | {column} | What it does | Acts now |"
    yield "|---|---|---|---|---|---|---|"
    for key in keys:
        default = {None: "", "": "empty"}.get(key.default_text, f"`{key.default_text}`")
        limit = key.validator.shown if key.validator else ""
        acts = "yes" if key.served else "accepted, later"
        yield (
            f"| `{key.name}` | {key.type.name.lower()} | {default} | {limit} | {cell(key)}"
            f" | {key.documentation} | {acts} |"
        )


def _broker_keys(key: ConfigKey) -> str:
    return ", ".join(f"`{name}`" for name, _ in SYNONYMS.get(key.name, ()))


if __name__ == "__main__":
    sys.stdout.write(configuration_page())
