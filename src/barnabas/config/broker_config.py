"""The config of one broker: its properties file, overridden by dynamic values.

The first of these that has a value counts, as in Kafka:

    per broker        set while running, for this broker       /config/brokers/<id>
    cluster default   set while running, for all brokers       /config/brokers/<default>
    static            the properties the broker started with   server.properties, --override
    default           the default of Kafka 3.9                 broker_keys/

A `BrokerConfig` is immutable: `with_dynamic` returns the next one.
"""

import builtins
from collections.abc import Iterator, Mapping
from typing import Final, Self, TypeVar

from barnabas.base.errors import ConfigError
from barnabas.config.broker_keys import BROKER_KEYS, broker_key
from barnabas.config.config_key import (
    ConfigEntry,
    ConfigKey,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    UpdateMode,
    Value,
    did_you_mean,
)
from barnabas.config.config_rules import check_together
from barnabas.config.dynamic_config import applicable, check_dynamic, check_threads
from barnabas.config.listener_values import ListenerValues
from barnabas.config.listeners import Listener, parse_listeners, parse_protocol_map, split_list

__all__ = ["BrokerConfig", "broker_key"]

_T = TypeVar("_T", bool, int, float, str, tuple[str, ...])

# Keys that set the same value; the first that is set counts.
_SYNONYMS: Final = {
    name: group
    for group in (
        ("log.roll.ms", "log.roll.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    for name in group
} | {"log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")}

# Without any of these a broker or its ZooKeeper would be open to more people than intended.
_SECURITY: Final = (
    "authorizer.class.name",
    "delegation.token.master.key",
    "delegation.token.secret.key",
    "sasl.",
    "ssl.",
    "zookeeper.set.acl",
    "zookeeper.ssl.",
)

_DEFAULTS: Final[dict[str, Value]] = {name: key.default for name, key in BROKER_KEYS.items()}


class BrokerConfig:
    """Every broker key's value, parsed and validated, and its source.

    `unknown` are static properties without a key; they are kept and described, not used.
    `warnings` are messages for the log: unknown properties, and ignored dynamic values.
    """

    __slots__ = ("_cluster_default", "_per_broker", "_static", "_values", "unknown", "warnings")

    def __init__(
        self,
        static: Mapping[builtins.str, builtins.str],
        per_broker: Mapping[builtins.str, builtins.str] | None = None,
        cluster_default: Mapping[builtins.str, builtins.str] | None = None,
    ) -> None:
        self._static = _with_both_ids(static)
        self.unknown = tuple(name for name in self._static if broker_key(name) is None)
        warnings = [
            f"unknown property {name}{did_you_mean(name, BROKER_KEYS)}" for name in self.unknown
        ]
        self._per_broker = applicable(per_broker or {}, False, warnings)
        self._cluster_default = applicable(cluster_default or {}, True, warnings)
        self.warnings = tuple(warnings)
        self._values = _DEFAULTS | dict(self._parsed())
        check_together(self)

    @classmethod
    def from_properties(cls, properties: Mapping[builtins.str, builtins.str]) -> Self:
        """The config of a broker that starts with `properties`.

        Raises  ConfigError for an invalid value, or a conflict between values
        """
        return cls(properties)

    def with_dynamic(
        self,
        per_broker: Mapping[builtins.str, builtins.str],
        cluster_default: Mapping[builtins.str, builtins.str],
    ) -> Self:
        """The config with exactly these dynamic values.

        Invalid dynamic values are ignored and reported in `warnings`: stored values must not keep
        a broker from starting.

        Raises  ConfigError if values conflict; then keep using this config
        """
        return type(self)(self._static, per_broker, cluster_default)

    def validate_dynamic_values(
        self,
        wanted: Mapping[builtins.str, builtins.str],
        *,
        cluster_default: builtins.bool = False,
    ) -> Self:
        """Check dynamic values by which a request replaces all present ones; return the config with
        them.

        Raises  ConfigError with Kafka's message if a key is read-only, or can only be set for one
                broker or one listener, or if a value is invalid or conflicts with others
        """
        for name, value in wanted.items():
            check_dynamic(name, value, cluster_default)
        if cluster_default:
            changed = self.with_dynamic(self._per_broker, wanted)
        else:
            changed = self.with_dynamic(wanted, self._cluster_default)
        check_threads(self._values, changed._values)
        return changed

    # Typed access, for `compose` to pass on plain values. Only the optional_ ones return None.

    def value(self, name: builtins.str) -> Value:
        return self._values[name]

    def bool(self, name: builtins.str) -> builtins.bool:
        return self._typed(name, bool)

    def int(self, name: builtins.str) -> builtins.int:
        return self._typed(name, int)

    def long(self, name: builtins.str) -> builtins.int:
        return self._typed(name, int)

    def double(self, name: builtins.str) -> float:
        return self._typed(name, float)

    def str(self, name: builtins.str) -> builtins.str:
        return self._typed(name, str)

    def list(self, name: builtins.str) -> tuple[builtins.str, ...]:
        return self._typed(name, tuple)

    def optional_int(self, name: builtins.str) -> builtins.int | None:
        return None if self._values[name] is None else self._typed(name, int)

    def optional_str(self, name: builtins.str) -> builtins.str | None:
        return None if self._values[name] is None else self._typed(name, str)

    def is_set(self, name: builtins.str) -> builtins.bool:
        """True if the key is set; otherwise it has its default."""
        return any(
            name in texts for texts in (self._static, self._per_broker, self._cluster_default)
        )

    # Values that combine several keys

    def broker_id(self) -> builtins.int:
        return self.int("broker.id")

    def log_dirs(self) -> builtins.list[builtins.str]:
        return split_list(self.optional_str("log.dirs") or self.str("log.dir"))

    def listeners(self) -> builtins.list[Listener]:
        """The endpoints to listen on."""
        return parse_listeners(self.str("listeners"), self._protocols())

    def advertised(self) -> builtins.list[Listener]:
        """The endpoints for clients; the server replaces an empty host and port 0."""
        text = self.optional_str("advertised.listeners")
        if text is None:
            return self.listeners()
        return parse_listeners(text, self._protocols(), distinct_ports=False)

    def inter_broker_listener_name(self) -> builtins.str:
        """Raises ConfigError, if both properties that can say it do."""
        name, protocol = "inter.broker.listener.name", "security.inter.broker.protocol"
        if self.optional_str(name) and protocol in self._static:
            raise ConfigError(f"Only one of {name} and {protocol} should be set.")
        return (self.optional_str(name) or self.str(protocol)).upper()

    def of_listener(self, name: builtins.str) -> ListenerValues:
        """The security properties of one listener."""
        return ListenerValues(self._layered(), _GIVEN_DEFAULTS, name)

    def max_connections_per_ip_overrides(self) -> dict[builtins.str, builtins.int]:
        name = "max.connections.per.ip.overrides"
        limits = (item.rpartition(":") for item in split_list(self.str(name)))
        try:
            return {host.strip(): int(count) for host, _, count in limits}
        except ValueError as cause:
            raise ConfigError(f"Error parsing configuration property '{name}': {cause}") from cause

    def not_acted_on(self) -> builtins.list[builtins.str]:
        """The known keys in the properties file that this broker accepts and ignores."""
        known = ((name, broker_key(name)) for name in self._static)
        return sorted(name for name, key in known if key is not None and not key.served)

    def handler_classes(self) -> builtins.list[builtins.str]:
        """The properties that name a Java class which is not Kafka's own."""
        return sorted(
            name
            for name, text in self._static.items()
            if name.endswith("callback.handler.class")
            and text.strip()
            and not text.strip().startswith("org.apache.kafka.common.security.")
        )

    def unserved_security(self) -> builtins.list[builtins.str]:
        """The properties in the file that ask for security which this broker lacks."""
        return sorted(
            name
            for name in self._static
            for key in [broker_key(name)]
            if (key.name if key else name).startswith(_SECURITY)
            and (key is None or (not key.served and self._values[name] != key.default))
        )

    # DescribeConfigs

    def describe(self) -> builtins.list[ConfigEntry]:
        """The entries of this broker, sorted by name."""
        described = {name for name, key in BROKER_KEYS.items() if not key.internal}
        return [self._entry(name) for name in sorted(described | self._layered().keys())]

    def describe_cluster_default(self) -> builtins.list[ConfigEntry]:
        """The entries of the dynamic default of all brokers."""
        return [_only_cluster_default(self._entry(name)) for name in sorted(self._cluster_default)]

    def synonyms(self, name: builtins.str) -> tuple[ConfigSynonym, ...]:
        """All sources of the key's value, the effective one first.

        As in Kafka the list begins where the key's own name first has a value: it is empty for a
        key that is only set by a synonym, such as log.retention.ms by log.retention.hours.
        """
        found = [
            ConfigSynonym(synonym, text, source)
            for source, texts in self._sources()
            for synonym in _SYNONYMS.get(name, (name,))
            if (text := texts.get(synonym)) is not None
        ]
        start = next((i for i, synonym in enumerate(found) if synonym.name == name), len(found))
        hidden = _is_sensitive(broker_key(name))
        return tuple(s._replace(value=None) if hidden else s for s in found[start:])

    def _entry(self, name: builtins.str) -> ConfigEntry:
        key = broker_key(name)
        synonyms = self.synonyms(name)
        return ConfigEntry(
            name=name,
            value=None if key is None or key.sensitive else key.render(self._values[name]),
            source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
            synonyms=synonyms,
            type=key.type if key else ConfigType.UNKNOWN,
            read_only=name not in BROKER_KEYS or BROKER_KEYS[name].update is UpdateMode.READ_ONLY,
            sensitive=_is_sensitive(key),
            documentation=key.documentation if key else None,
        )

    def _sources(self) -> Iterator[tuple[ConfigSource, Mapping[builtins.str, builtins.str | None]]]:
        yield ConfigSource.DYNAMIC_BROKER_CONFIG, self._per_broker
        yield ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, self._cluster_default
        yield ConfigSource.STATIC_BROKER_CONFIG, self._static
        yield ConfigSource.DEFAULT_CONFIG, _DEFAULT_TEXTS

    def _layered(self) -> dict[builtins.str, builtins.str]:
        """The effective texts; a dynamic log.roll.hours also overrides a static log.roll.ms."""
        texts = dict(self._static)
        for layer in (self._cluster_default, self._per_broker):
            for name, text in layer.items():
                for synonym in _SYNONYMS.get(name, ()):
                    texts.pop(synonym, None)
                texts[name] = text
        return texts

    def _parsed(self) -> Iterator[tuple[builtins.str, Value]]:
        for name, text in self._layered().items():
            key = broker_key(name)
            if key is not None:
                yield name, key._replace(name=name).parse(text)

    def _protocols(self) -> dict[builtins.str, builtins.str]:
        return parse_protocol_map(self.str("listener.security.protocol.map"))

    def _typed(self, name: builtins.str, type_: type[_T]) -> _T:
        value = self._values[name]
        if not isinstance(value, type_):
            raise TypeError(f"{name} is {value!r}, not {type_.__name__}")
        return value


_DEFAULT_TEXTS: Final = {name: key.default_text for name, key in BROKER_KEYS.items()}
_GIVEN_DEFAULTS: Final = {name: text for name, text in _DEFAULT_TEXTS.items() if text is not None}


def _with_both_ids(static: Mapping[str, str]) -> dict[str, str]:
    ids = {name: static[name] for name in ("broker.id", "node.id") if name in static}
    if len(ids) == 1:
        (text,) = ids.values()
        return {**static, "broker.id": text, "node.id": text}
    return dict(static)


def _is_sensitive(key: ConfigKey | None) -> bool:
    # An unknown property might be a password.
    return key is None or key.sensitive


def _only_cluster_default(entry: ConfigEntry) -> ConfigEntry:
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    kept = tuple(synonym for synonym in entry.synonyms if synonym.source is source)
    return entry._replace(source=source, synonyms=kept, value=kept[0].value)
