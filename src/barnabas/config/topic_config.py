"""The config of one topic, resolved once so that hot code reads plain attributes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from barnabas.base.errors import ConfigError
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.config_key import (
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    Value,
    did_you_mean,
)
from barnabas.config.topic_keys import SYNONYMS, TOPIC_KEYS

_MAX_LONG: Final = 2**63 - 1
_HOUR_MS: Final = 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The topic configs of Kafka 3.9 with Kafka's defaults; -1 is no limit, as in Kafka.

    Fields are the config names with underscores for dots.
    """

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 24 * _HOUR_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = _MAX_LONG
    flush_ms: int = _MAX_LONG
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = _MAX_LONG
    max_message_bytes: int = 1024 * 1024 + 12
    message_downconversion_enable: bool = True
    message_format_version: str = "3.0-IV1"
    message_timestamp_after_max_ms: int = _MAX_LONG
    message_timestamp_before_max_ms: int = _MAX_LONG
    message_timestamp_difference_max_ms: int = _MAX_LONG
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 7 * 24 * _HOUR_MS
    segment_bytes: int = 1024 * 1024 * 1024
    segment_index_bytes: int = 10 * 1024 * 1024
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * 24 * _HOUR_MS
    unclean_leader_election_enable: bool = False

    @property
    def compacts(self) -> bool:
        """True if the log is compacted."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """True if segments are deleted by age or size."""
        return "delete" in self.cleanup_policy


def resolve(overrides: Mapping[str, str], broker: BrokerConfig) -> TopicConfig:
    """The config of a topic with these overrides on this broker.

    Raises  ConfigError for an override that `validate_overrides` refuses
    """
    values = _values(overrides, broker)
    for name in ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms"):
        if values[name] == _MAX_LONG:
            values[name] = values["message.timestamp.difference.max.ms"]
    fields: dict[str, Any] = {name.replace(".", "_"): value for name, value in values.items()}
    return TopicConfig(**fields)


def validate_overrides(overrides: Mapping[str, str], broker: BrokerConfig | None = None) -> None:
    """Check a topic's overrides, alone or (with `broker`) on top of the broker's defaults.

    Raises  ConfigError, with Kafka's message, for an unknown name, an invalid value, or a
            conflict between two values
    """
    values = _values(overrides, broker)
    lag, most = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if isinstance(lag, int) and isinstance(most, int) and lag > most:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({lag}) >"
            f" max.compaction.lag.ms ({most})"
        )
    if values["remote.log.delete.on.disable"] or values["remote.log.copy.disable"]:
        raise ConfigError(
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable`"
            " under Zookeeper's mode."
        )
    if values["remote.storage.enable"]:
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured"
            " with remote log storage."
        )


def describe(overrides: Mapping[str, str], broker: BrokerConfig) -> list[ConfigEntry]:
    """The DescribeConfigs entries of a topic with these overrides, sorted by name."""
    values = _values(overrides, broker)
    return [_entry(name, values[name], name in overrides, broker) for name in TOPIC_KEYS]


def _entry(name: str, value: Value, overridden: bool, broker: BrokerConfig) -> ConfigEntry:
    key = TOPIC_KEYS[name]
    text = key.render(value)
    synonyms = broker.synonyms(SYNONYMS[name][0][0]) if name in SYNONYMS else ()
    if overridden:
        own = ConfigSynonym(name, text, ConfigSource.DYNAMIC_TOPIC_CONFIG)
        synonyms = (own, *synonyms)
    return ConfigEntry(
        name=name,
        value=text,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        synonyms=synonyms,
        type=key.type,
        read_only=False,
        sensitive=False,
        documentation=key.documentation,
    )


def _values(overrides: Mapping[str, str], broker: BrokerConfig | None) -> dict[str, Value]:
    """Every key's value as clients see it: the override, else the broker's, else Kafka's."""
    values = {name: _broker_value(name, broker) for name in TOPIC_KEYS}
    for name, text in overrides.items():
        if name not in TOPIC_KEYS:
            hint = did_you_mean(name, TOPIC_KEYS)
            raise ConfigError(f"Unknown topic config name: {name}{hint}")
        values[name] = TOPIC_KEYS[name].parse(text)
    return values


def _broker_value(name: str, broker: BrokerConfig | None) -> Value:
    default = TOPIC_KEYS[name].default
    if broker is None or name not in SYNONYMS or name == "message.format.version":
        return default  # the broker's format version is ignored since Kafka 3.0
    synonyms = ((broker.value(synonym), factor) for synonym, factor in SYNONYMS[name])
    value, factor = next((value, factor) for value, factor in synonyms if value is not None)
    if name in ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms"):
        return (
            broker.value("log.message.timestamp.difference.max.ms") if value == default else value
        )
    if name == "retention.ms" and isinstance(value, int):
        return max(-1, value * factor)
    return value * factor if isinstance(value, int) and factor > 1 else value
