"""A topic's config: its overrides, then the broker's values, then Kafka's defaults."""

from dataclasses import fields

import pytest

from barnabas.base.errors import ConfigError
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.broker_keys import BROKER_KEYS
from barnabas.config.config_key import (
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    UpdateMode,
)
from barnabas.config.topic_config import TopicConfig, describe, resolve, validate_overrides
from barnabas.config.topic_keys import SYNONYMS, TOPIC_KEYS

BROKER = BrokerConfig.from_properties({})


def broker(**properties: str) -> BrokerConfig:
    return BrokerConfig.from_properties(
        {name.replace("_", "."): text for name, text in properties.items()}
    )


def entry(overrides: dict[str, str], broker: BrokerConfig, name: str) -> ConfigEntry:
    return next(entry for entry in describe(overrides, broker) if entry.name == name)


def test_fields_are_the_keys_with_the_defaults_of_kafka() -> None:
    defaults = TopicConfig()
    assert [field.name for field in fields(defaults)] == [
        name.replace(".", "_") for name in TOPIC_KEYS
    ]
    for name, key in TOPIC_KEYS.items():
        assert getattr(defaults, name.replace(".", "_")) == key.default, name


def test_an_unconfigured_topic_of_an_unconfigured_broker_has_the_defaults() -> None:
    assert resolve({}, BROKER) == TopicConfig()


def test_every_topic_key_agrees_with_its_broker_key_in_limit_and_documentation() -> None:
    for name, ((synonym, _), *_) in SYNONYMS.items():
        topic, of_broker = TOPIC_KEYS[name], BROKER_KEYS[synonym]
        assert topic.type is of_broker.type, name
        dynamic = of_broker.update is UpdateMode.CLUSTER_WIDE
        assert dynamic or name == "message.format.version", name


def test_overrides_come_before_the_brokers_values() -> None:
    topic = resolve(
        {"retention.ms": "5", "cleanup.policy": "compact, delete"}, broker(log_retention_ms="7")
    )
    assert topic.retention_ms == 5
    assert topic.cleanup_policy == ("compact", "delete")
    assert topic.compacts
    assert topic.deletes


@pytest.mark.parametrize(
    ("properties", "field", "value"),
    [
        ({"log.retention.hours": "2"}, "retention_ms", 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, "retention_ms", 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, "retention_ms", 4),
        ({"log.retention.hours": "-1"}, "retention_ms", -1),
        ({"log.roll.hours": "1"}, "segment_ms", 3_600_000),
        ({"log.roll.hours": "1", "log.roll.ms": "9"}, "segment_ms", 9),
        ({"log.roll.jitter.hours": "1"}, "segment_jitter_ms", 3_600_000),
        ({"log.flush.scheduler.interval.ms": "8"}, "flush_ms", 8),
        ({"log.flush.scheduler.interval.ms": "8", "log.flush.interval.ms": "9"}, "flush_ms", 9),
        ({"message.max.bytes": "10"}, "max_message_bytes", 10),
        ({"log.segment.delete.delay.ms": "1"}, "file_delete_delay_ms", 1),
        ({"log.index.size.max.bytes": "80"}, "segment_index_bytes", 80),
        ({"log.cleaner.min.cleanable.ratio": "0.1"}, "min_cleanable_dirty_ratio", 0.1),
        ({"log.cleanup.policy": "compact"}, "cleanup_policy", ("compact",)),
        ({"log.message.format.version": "2.8"}, "message_format_version", "3.0-IV1"),
        ({"log.preallocate": "true"}, "preallocate", True),
    ],
)
def test_a_topic_uses_the_values_of_its_broker_keys(
    properties: dict[str, str], field: str, value: object
) -> None:
    assert getattr(resolve({}, BrokerConfig.from_properties(properties)), field) == value


def test_a_dynamic_change_of_the_broker_reaches_topics_that_do_not_override_it() -> None:
    changed = BROKER.with_dynamic({}, {"log.retention.ms": "7"})
    assert resolve({}, changed).retention_ms == 7
    assert resolve({"retention.ms": "5"}, changed).retention_ms == 5


def test_the_older_timestamp_difference_counts_where_before_and_after_are_unlimited() -> None:
    topic = resolve(
        {"message.timestamp.difference.max.ms": "10", "message.timestamp.after.max.ms": "3"}, BROKER
    )
    assert topic.message_timestamp_before_max_ms == 10
    assert topic.message_timestamp_after_max_ms == 3
    of_broker = resolve({}, broker(log_message_timestamp_difference_max_ms="10"))
    assert of_broker.message_timestamp_before_max_ms == 10
    assert of_broker.message_timestamp_after_max_ms == 10


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        ({"retention.hours": "1"}, "Unknown topic config name: retention.hours"),
        ({"retention.mss": "1"}, "(did you mean retention.ms?)"),
        (
            {"retention.ms": "-2"},
            "Invalid value -2 for configuration retention.ms: Value must be at",
        ),
        ({"segment.bytes": "13"}, "Value must be at least 14"),
        ({"cleanup.policy": "shred"}, "String must be one of: compact, delete"),
        (
            {"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"},
            "conflict topic config setting",
        ),
        ({"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled"),
        ({"remote.log.copy.disable": "true"}, "under Zookeeper's mode"),
    ],
)
def test_invalid_overrides_are_refused_with_kafkas_message(
    overrides: dict[str, str], why: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_overrides(overrides)
    assert why in str(caught.value)


def test_overrides_that_conflict_with_the_broker_are_refused() -> None:
    overrides = {"min.compaction.lag.ms": "5"}
    validate_overrides(overrides)
    with pytest.raises(ConfigError, match=r"\(5\) > max\.compaction\.lag\.ms \(4\)"):
        validate_overrides(overrides, broker(log_cleaner_max_compaction_lag_ms="4"))


def test_every_key_is_described_by_name() -> None:
    described = describe({}, BROKER)
    assert [entry.name for entry in described] == sorted(TOPIC_KEYS)
    assert all(entry.source is ConfigSource.DEFAULT_CONFIG for entry in described)
    assert not any(entry.read_only or entry.sensitive for entry in described)


def test_an_override_is_described_before_the_brokers_values() -> None:
    changed = broker(message_max_bytes="30").with_dynamic(
        {"message.max.bytes": "20"}, {"message.max.bytes": "25"}
    )
    assert entry({"max.message.bytes": "10"}, changed, "max.message.bytes") == ConfigEntry(
        name="max.message.bytes",
        value="10",
        source=ConfigSource.DYNAMIC_TOPIC_CONFIG,
        synonyms=(
            ConfigSynonym("max.message.bytes", "10", ConfigSource.DYNAMIC_TOPIC_CONFIG),
            ConfigSynonym("message.max.bytes", "20", ConfigSource.DYNAMIC_BROKER_CONFIG),
            ConfigSynonym("message.max.bytes", "25", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            ConfigSynonym("message.max.bytes", "30", ConfigSource.STATIC_BROKER_CONFIG),
            ConfigSynonym("message.max.bytes", "1048588", ConfigSource.DEFAULT_CONFIG),
        ),
        type=ConfigType.INT,
        read_only=False,
        sensitive=False,
        documentation=TOPIC_KEYS["max.message.bytes"].documentation,
    )


def test_a_value_of_the_brokers_file_is_described_with_that_source() -> None:
    described = entry({}, broker(log_segment_bytes="100"), "segment.bytes")
    assert described.value == "100"
    assert described.source is ConfigSource.STATIC_BROKER_CONFIG


def test_a_key_without_broker_keys_has_no_synonyms() -> None:
    name = "leader.replication.throttled.replicas"
    assert entry({}, BROKER, name).synonyms == ()
    assert entry({name: "*"}, BROKER, name).synonyms == (
        ConfigSynonym(name, "*", ConfigSource.DYNAMIC_TOPIC_CONFIG),
    )
