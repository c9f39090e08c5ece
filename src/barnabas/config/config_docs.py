"""Writes docs/configuration.md from the tables of keys: `python -m barnabas.config.config_docs`."""

import sys
from collections.abc import Callable, Iterable, Iterator

from barnabas.config.broker_keys import TABLES
from barnabas.config.config_key import ConfigKey
from barnabas.config.config_table import read_keys
from barnabas.config.topic_keys import SYNONYMS, TOPIC_KEYS

_OPENING = """\
# Configuration

Barnabas is configured by Kafka's property names, in Kafka's file format: `server.properties` given
to `barnabas server --config`, single values by `--override key=value`, and topics and running
brokers by the names that `kafka-configs` uses. Types, defaults and limits are those of Kafka 3.9.

Where a broker key is set in several places, the first of these counts: for this broker while it
runs, for all brokers while they run, in the properties file, the default. A topic key can be set at
any time; while it is not, the topic takes the value of the first of its broker keys that has one.

*Dynamic* tells whether a running broker takes a new value: for one broker only (per-broker), or
also for all (cluster-wide). *Acts now* tells whether Barnabas does what the key says; every other
key is accepted, checked and described, for when its part of the broker comes.

A property that no key has is kept, described, and told in the log at start, with the key that may
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
