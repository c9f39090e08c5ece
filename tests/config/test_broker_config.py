"""A broker's config: precedence of values, refused values, and DescribeConfigs."""

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
from barnabas.config.listeners import Listener


def config(**properties: str) -> BrokerConfig:
    return BrokerConfig.from_properties(
        {name.replace("_", "."): text for name, text in properties.items()}
    )


def entry(described: list[ConfigEntry], name: str) -> ConfigEntry:
    return next(entry for entry in described if entry.name == name)


def test_an_empty_file_gives_kafkas_defaults() -> None:
    defaults = config()
    assert defaults.broker_id() == -1
    assert defaults.int("num.partitions") == 1
    assert defaults.long("log.retention.check.interval.ms") == 300_000
    assert defaults.bool("auto.create.topics.enable") is True
    assert defaults.double("log.cleaner.io.max.bytes.per.second") == 1.7976931348623157e308
    assert defaults.str("compression.type") == "producer"
    assert defaults.list("log.cleanup.policy") == ("delete",)
    assert defaults.optional_str("zookeeper.connect") is None
    assert defaults.optional_int("zookeeper.connection.timeout.ms") is None
    assert defaults.log_dirs() == ["/tmp/kafka-logs"]
    assert defaults.listeners() == [Listener("PLAINTEXT", "", 9092, "PLAINTEXT")]
    assert defaults.warnings == ()


def test_every_default_round_trips() -> None:
    for key in BROKER_KEYS.values():
        text = key.default_text
        assert text is None or key.parse(text) == key.default, key.name


def test_every_key_is_documented_in_a_sentence() -> None:
    for key in BROKER_KEYS.values():
        assert key.documentation.endswith("."), key.name
        assert key.importance in ("high", "medium", "low"), key.name


def test_values_of_the_file_are_parsed() -> None:
    given = config(
        log_dirs="/a, /b", num_partitions="3", max_connections_per_ip_overrides="h:1,::1:2"
    )
    assert given.log_dirs() == ["/a", "/b"]
    assert given.int("num.partitions") == 3
    assert given.max_connections_per_ip_overrides() == {"h": 1, "::1": 2}


def test_reading_a_value_as_another_type_is_a_bug_of_the_caller() -> None:
    with pytest.raises(TypeError, match=r"log\.dir is '/tmp/kafka-logs', not int"):
        config().int("log.dir")


def test_node_id_and_broker_id_are_one() -> None:
    assert config(node_id="7").broker_id() == 7
    assert config(broker_id="7").int("node.id") == 7
    with pytest.raises(ConfigError, match=r"`node\.id` to the same value as `broker\.id`"):
        config(node_id="7", broker_id="8")


def test_an_unknown_property_is_kept_and_warned_about() -> None:
    given = config(num_partition="3", my_plugin="x")
    assert given.unknown == ("num.partition", "my.plugin")
    assert given.warnings == (
        "unknown property num.partition (did you mean num.partitions?)",
        "unknown property my.plugin",
    )


def test_a_property_of_one_listener_is_known_by_its_base() -> None:
    names = {
        "listener.name.inside.ssl.keystore.location": "/k",
        "listener.name.inside.scram-sha-256.sasl.jaas.config": "x",
    }
    given = BrokerConfig.from_properties(names)
    assert given.unknown == ()
    location = entry(given.describe(), "listener.name.inside.ssl.keystore.location")
    assert (location.value, location.type, location.sensitive) == ("/k", ConfigType.STRING, False)
    jaas = entry(given.describe(), "listener.name.inside.scram-sha-256.sasl.jaas.config")
    assert (jaas.value, jaas.sensitive) == (None, True)


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"num.partitions": "0"}, "Invalid value 0 for configuration num.partitions"),
        ({"broker.id": "-2"}, "broker.id must be greater than or equal to -1"),
        ({"broker.id": "1001"}, "not greater than reserved.broker.max.id"),
        ({"broker.id.generation.enable": "false"}, "broker.id must be greater than or equal to 0"),
        ({"log.dirs": ","}, "At least one log directory"),
        ({"log.roll.ms": "0"}, "log.roll.ms must be greater"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms must be greater"),
        ({"log.retention.minutes": "0"}, "log.retention.ms must be unlimited"),
        (
            {"log.cleaner.min.compaction.lag.ms": "2", "log.cleaner.max.compaction.lag.ms": "1"},
            "(2)",
        ),
        ({"replica.fetch.wait.max.ms": "30001"}, "replica.socket.timeout.ms should"),
        ({"replica.lag.time.max.ms": "499"}, "replica.lag.time.max.ms to prevent"),
        ({"group.coordinator.rebalance.protocols": "classic,consumer"}, "can only be classic"),
        ({"queued.max.request.bytes": "5"}, "queued.max.request.bytes must be larger"),
        ({"max.connections.per.ip": "0"}, "can be set to zero only if"),
        ({"max.connections.per.ip.overrides": "a:b"}, "max.connections.per.ip.overrides"),
        ({"connections.max.idle.ms": "100"}, "delay.ms=100 should always be less than"),
        ({"listeners": "SSL://:1"}, "inter.broker.listener.name must be a listener name"),
        (
            {
                "inter.broker.listener.name": "PLAINTEXT",
                "security.inter.broker.protocol": "PLAINTEXT",
            },
            "Only one of inter.broker.listener.name and security.inter.broker.protocol",
        ),
        ({"listeners": "PLAINTEXT://0.0.0.0:1"}, "nonroutable meta-address 0.0.0.0"),
        ({"advertised.listeners": ""}, "at least one broker advertised listener"),
        ({"advertised.listeners": "PLAINTEXT://a:1,SSL://a:1"}, "equal to or a subset"),
        ({"listener.security.protocol.map": "A:B"}, "Invalid security protocol `B`"),
    ],
)
def test_invalid_values_are_refused(properties: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_properties(properties)
    assert why in str(caught.value)


def test_listeners_are_advertised_unless_others_are_set() -> None:
    plain = config(listeners="PLAINTEXT://:0")
    assert plain.advertised() == [Listener("PLAINTEXT", "", 0, "PLAINTEXT")]
    behind = config(listeners="PLAINTEXT://:0", advertised_listeners="PLAINTEXT://example.org:80")
    assert behind.advertised() == [Listener("PLAINTEXT", "example.org", 80, "PLAINTEXT")]


def test_s1_a_listener_by_another_name_can_be_the_inter_broker_one() -> None:
    given = config(
        listeners="INSIDE://:1,OUTSIDE://:2",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:SSL",
        inter_broker_listener_name="inside",
    )
    assert given.inter_broker_listener_name() == "INSIDE"
    assert [listener.protocol for listener in given.listeners()] == ["PLAINTEXT", "SSL"]


def test_per_broker_beats_cluster_default_beats_file_beats_default() -> None:
    name = "log.segment.bytes"
    static = config(log_segment_bytes="100")
    cluster = static.with_dynamic({}, {name: "200"})
    both = static.with_dynamic({name: "300"}, {name: "200"})
    assert [c.int(name) for c in (config(), static, cluster, both)] == [1073741824, 100, 200, 300]
    assert both.synonyms(name) == (
        ConfigSynonym(name, "300", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ConfigSynonym(name, "200", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ConfigSynonym(name, "100", ConfigSource.STATIC_BROKER_CONFIG),
        ConfigSynonym(name, "1073741824", ConfigSource.DEFAULT_CONFIG),
    )
    assert both.with_dynamic({}, {}).int(name) == 100


def test_a_dynamic_value_overrides_its_synonyms_in_the_file() -> None:
    static = config(log_retention_minutes="5")
    changed = static.with_dynamic({"log.retention.ms": "7"}, {})
    assert changed.value("log.retention.ms") == 7
    assert changed.value("log.retention.minutes") is None


def test_invalid_stored_dynamic_values_are_ignored_with_a_warning() -> None:
    stored = {"broker.id": "9", "log.segment.bytes": "x", "num.io.threads": "4", "custom": "1"}
    given = config().with_dynamic(stored, {"listeners": "PLAINTEXT://:1"})
    assert given.broker_id() == -1
    assert given.int("num.io.threads") == 4
    assert given.str("listeners") == "PLAINTEXT://:9092"
    assert len(given.warnings) == 3


def test_conflicting_dynamic_values_leave_the_config_unchanged() -> None:
    before = config()
    with pytest.raises(ConfigError, match="conflict topic config setting"):
        before.with_dynamic(
            {"log.cleaner.min.compaction.lag.ms": "2"}, {"log.cleaner.max.compaction.lag.ms": "1"}
        )
    assert before.long("log.cleaner.min.compaction.lag.ms") == 0


@pytest.mark.parametrize(
    ("name", "value", "cluster_default", "why"),
    [
        ("broker.id", "1", False, "Cannot update these configs dynamically: Set(broker.id)"),
        ("log.retention.hours", "1", False, "Cannot update these configs dynamically"),
        ("ssl.keystore.location", "/a", False, "only per-listener using the listener prefix"),
        ("listeners", "PLAINTEXT://:1", False, "Cannot update these configs dynamically"),
        ("advertised.listeners", "PLAINTEXT://h:1", False, "update these configs dynamically"),
        (
            "ssl.client.auth",
            "required",
            True,
            "Cannot update these configs at default cluster level",
        ),
        ("listener.name.a.ssl.keystore.type", "PEM", True, "at default cluster level"),
        ("listener.name.a.connections.max.reauth.ms", "5", True, "at default cluster level"),
        ("log.segment.bytes", "x", True, "Invalid value x for configuration log.segment.bytes"),
        ("log.cleaner.threads", "0", False, "value should be at least 1"),
        ("num.replica.fetchers", "0", True, "value should be at least 1"),
        ("num.replica.fetchers", "3", True, "not be greater than double the current value 1"),
        ("num.io.threads", "3", True, "value should be at least half the current value 8"),
        ("log.roll.ms", "0", False, "log.roll.ms must be greater than or equal to 1"),
    ],
)
def test_an_invalid_dynamic_value_is_refused_with_kafkas_message(
    name: str, value: str, cluster_default: bool, why: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        config().validate_dynamic_values({name: value}, cluster_default=cluster_default)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "cluster_default"),
    [
        ("log.segment.bytes", "100", True),
        ("log.cleaner.threads", "2", True),
        ("listener.name.a.ssl.keystore.type", "PEM", False),
        ("listener.name.a.connections.max.reauth.ms", "5", False),
        ("listener.name.a.max.connections", "5", True),
        ("leader.replication.throttled.rate", "100", False),
        ("a.plugin.of.mine", "anything", True),
    ],
)
def test_a_valid_dynamic_value_is_accepted(name: str, value: str, cluster_default: bool) -> None:
    config().validate_dynamic_values({name: value}, cluster_default=cluster_default)


def test_dynamic_values_are_validated_together() -> None:
    lags = {"log.cleaner.min.compaction.lag.ms": "20", "log.cleaner.max.compaction.lag.ms": "30"}
    present = config().with_dynamic({"log.cleaner.max.compaction.lag.ms": "10"}, {})
    present.validate_dynamic_values(lags)
    with pytest.raises(ConfigError, match="conflict topic config setting"):
        present.validate_dynamic_values({**lags, "log.cleaner.max.compaction.lag.ms": "10"})
    with pytest.raises(ConfigError, match="conflict topic config setting"):
        present.validate_dynamic_values(
            {"log.cleaner.min.compaction.lag.ms": "20"}, cluster_default=True
        )


def test_every_key_is_described_with_value_source_and_type() -> None:
    described = config(num_partitions="3", sasl_jaas_config="secret").describe()
    names = [entry.name for entry in described]
    assert names == sorted(names)
    assert set(names) == {name for name, key in BROKER_KEYS.items() if not key.internal}
    assert entry(described, "num.partitions") == ConfigEntry(
        name="num.partitions",
        value="3",
        source=ConfigSource.STATIC_BROKER_CONFIG,
        synonyms=(
            ConfigSynonym("num.partitions", "3", ConfigSource.STATIC_BROKER_CONFIG),
            ConfigSynonym("num.partitions", "1", ConfigSource.DEFAULT_CONFIG),
        ),
        type=ConfigType.INT,
        read_only=True,
        sensitive=False,
        documentation=BROKER_KEYS["num.partitions"].documentation,
    )
    secret = entry(described, "sasl.jaas.config")
    assert secret.sensitive
    assert secret.value is None
    assert secret.synonyms[0].value is None
    assert not entry(described, "log.segment.bytes").read_only


def test_an_unknown_property_is_described_without_its_value() -> None:
    unknown = entry(config(my_plugin="x").describe(), "my.plugin")
    assert (unknown.value, unknown.sensitive, unknown.type) == (None, True, ConfigType.UNKNOWN)
    assert unknown.read_only
    assert unknown.source is ConfigSource.STATIC_BROKER_CONFIG


def test_an_internal_key_is_described_only_if_it_is_set() -> None:
    name = "log.initial.task.delay.ms"
    assert name not in [entry.name for entry in config().describe()]
    assert entry(config(log_initial_task_delay_ms="5").describe(), name).value == "5"


def test_a_value_set_only_by_a_synonym_has_no_synonyms_as_in_kafka() -> None:
    described = entry(config(log_retention_hours="1").describe(), "log.retention.ms")
    assert described.value is None
    assert described.source is ConfigSource.DEFAULT_CONFIG
    assert described.synonyms == ()


def test_the_cluster_default_describes_only_its_own_values() -> None:
    name = "log.segment.bytes"
    given = config().with_dynamic({name: "100"}, {name: "200"})
    assert given.describe_cluster_default() == [
        ConfigEntry(
            name=name,
            value="200",
            source=ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
            synonyms=(ConfigSynonym(name, "200", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),),
            type=ConfigType.INT,
            read_only=False,
            sensitive=False,
            documentation=BROKER_KEYS[name].documentation,
        )
    ]
    assert config().describe_cluster_default() == []


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("broker.id", UpdateMode.READ_ONLY),
        ("zookeeper.connect", UpdateMode.READ_ONLY),
        ("sasl.enabled.mechanisms", UpdateMode.PER_BROKER),
        ("ssl.keystore.password", UpdateMode.PER_BROKER),
        ("max.connections", UpdateMode.CLUSTER_WIDE),
        ("log.retention.ms", UpdateMode.CLUSTER_WIDE),
        ("log.retention.hours", UpdateMode.READ_ONLY),
        ("log.message.format.version", UpdateMode.READ_ONLY),
        ("min.insync.replicas", UpdateMode.CLUSTER_WIDE),
    ],
)
def test_update_modes_are_kafkas(name: str, mode: UpdateMode) -> None:
    assert BROKER_KEYS[name].update is mode
