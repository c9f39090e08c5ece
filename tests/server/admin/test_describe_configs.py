"""DescribeConfigs: values of topics and brokers, where they come from, and what is not there."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.server.admin.client import Client, parts
from tests.server.admin.running import broker

TOPIC, BROKER = 2, 4
TOPIC_SOURCE, STATIC_SOURCE, DEFAULT_SOURCE = 1, 4, 5
VERSIONS = range(1, 5)


def describe(
    client: Client,
    kind: int,
    name: str,
    keys: Sequence[str] | None = None,
    version: int = 4,
    **fields: object,
) -> Any:
    wanted = None if keys is None else tuple(keys)
    resource = parts(resource_type=kind, resource_name=name, configuration_keys=wanted)
    return client.call(ApiKey.DESCRIBE_CONFIGS, version, resources=(resource,), **fields).results[0]


def by_name(result: Any) -> dict[str, Any]:
    assert result.error_code == ErrorCode.none
    return {config.name: config for config in result.configs}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_returns_its_configs_and_defaults(client: Client, version: int) -> None:
    name = f"t-{version}"
    client.create(name, 1, retention_ms="123")
    result = describe(client, TOPIC, name, version=version)
    assert (result.resource_type, result.resource_name, result.error_message) == (TOPIC, name, "")
    configs = by_name(result)
    assert len(configs) > 30
    set_here, not_set = configs["retention.ms"], configs["segment.bytes"]
    assert (set_here.value, set_here.config_source) == ("123", TOPIC_SOURCE)
    assert (not_set.value, not_set.config_source) == ("1073741824", DEFAULT_SOURCE)
    assert not any(c.read_only or c.is_sensitive or c.synonyms for c in configs.values())
    if version >= 3:
        assert (set_here.config_type, set_here.documentation) == (5, None)


@pytest.mark.parametrize("version", VERSIONS)
def test_synonyms_come_in_order_of_precedence(tmp_path: Path, version: int) -> None:
    with broker(tmp_path, log_segment_bytes="2000000") as running, running.client() as client:
        client.create("t", 1, segment_bytes="1000000")
        result = describe(
            client, TOPIC, "t", ["segment.bytes"], version=version, include_synonyms=True
        )
        (config,) = by_name(result).values()
        assert [(s.name, s.value, s.source) for s in config.synonyms] == [
            ("segment.bytes", "1000000", TOPIC_SOURCE),
            ("log.segment.bytes", "2000000", STATIC_SOURCE),
            ("log.segment.bytes", "1073741824", DEFAULT_SOURCE),
        ]


@pytest.mark.parametrize("version", [3, 4])
def test_documentation_is_returned_on_request(client: Client, version: int) -> None:
    client.create(f"doc-{version}")
    asked = describe(client, TOPIC, f"doc-{version}", version=version, include_documentation=True)
    assert all(config.documentation for config in asked.configs)


def test_only_the_requested_configs_are_returned(client: Client) -> None:
    client.create("filtered")
    wanted = ["retention.ms", "cleanup.policy", "nonsense"]
    assert set(by_name(describe(client, TOPIC, "filtered", wanted))) == set(wanted[:2])
    assert len(by_name(describe(client, TOPIC, "filtered", []))) > 30


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_returns_all_of_its_configs(client: Client, version: int) -> None:
    configs = by_name(describe(client, BROKER, "0", version=version))
    assert len(configs) > 150
    assert (configs["broker.id"].value, configs["broker.id"].config_source) == ("0", STATIC_SOURCE)
    assert configs["broker.id"].read_only
    assert not configs["message.max.bytes"].read_only
    assert configs["ssl.key.password"].is_sensitive
    assert configs["ssl.key.password"].value is None


def test_nothing_is_set_for_all_brokers_at_first(client: Client) -> None:
    assert describe(client, BROKER, "").configs == ()


REFUSED = [
    (TOPIC, "nowhere", ErrorCode.unknown_topic_or_partition, ""),
    (TOPIC, "a b", ErrorCode.invalid_topic_exception, "Topic name is invalid"),
    (TOPIC, "", ErrorCode.invalid_topic_exception, "Topic name is invalid"),
    (
        BROKER,
        "7",
        ErrorCode.invalid_request,
        "Unexpected broker id, expected 0 or empty string, but received 7",
    ),
    (BROKER, "x", ErrorCode.invalid_request, "Broker id must be an integer, but it is: x"),
    (99, "x", ErrorCode.invalid_request, "Unsupported resource type: 99"),
]


@pytest.mark.parametrize(("kind", "name", "code", "message"), REFUSED)
@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_resource_is_an_error(
    client: Client, version: int, kind: int, name: str, code: ErrorCode, message: str
) -> None:
    result = describe(client, kind, name, version=version)
    assert result.error_code == code
    assert result.error_message.startswith(message)
    assert (result.resource_type, result.resource_name, result.configs) == (kind, name, ())
