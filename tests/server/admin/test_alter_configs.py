"""AlterConfigs and IncrementalAlterConfigs: what is refused, what takes effect, what stays."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import ApiKey
from tests.server.admin.client import Client, parts
from tests.server.admin.running import broker
from tests.server.admin.test_describe_configs import BROKER, TOPIC, by_name, describe

SET, DELETE, APPEND, SUBTRACT = range(4)
Op = tuple[str, int, str | None]


def resource(kind: int, name: str, *ops: Op) -> Any:
    configs = tuple(parts(name=n, config_operation=o, value=v) for n, o, v in ops)
    return parts(resource_type=kind, resource_name=name, configs=configs)


def incremental(
    client: Client, *resources: Any, version: int = 1, validate_only: bool = False
) -> Any:
    return client.call(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=resources, validate_only=validate_only
    ).responses


def replace(client: Client, *resources: Any, version: int = 2, validate_only: bool = False) -> Any:
    return client.call(
        ApiKey.ALTER_CONFIGS, version, resources=resources, validate_only=validate_only
    ).responses


def alter(client: Client, kind: int, name: str, *ops: Op) -> Any:
    """Incrementally; returns the one result."""
    return incremental(client, resource(kind, name, *ops))[0]


def value(client: Client, kind: int, name: str, key: str) -> str | None:
    found = by_name(describe(client, kind, name, [key])).get(key)
    return None if found is None else found.value


# -- incremental --------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1])
def test_single_properties_are_set_and_deleted(client: Client, version: int) -> None:
    name = f"inc-{version}"
    client.create(name, 1, segment_ms="5")
    ops = (("retention.ms", SET, "7"), ("segment.ms", DELETE, None))
    (result,) = incremental(client, resource(TOPIC, name, *ops), version=version)
    assert (result.error_code, result.error_message) == (ErrorCode.none, None)
    assert (result.resource_type, result.resource_name) == (TOPIC, name)
    assert value(client, TOPIC, name, "retention.ms") == "7"
    assert value(client, TOPIC, name, "segment.ms") == "604800000"


def test_lists_grow_and_shrink(client: Client) -> None:
    client.create("lists")
    key = "cleanup.policy"
    for operation, text, expected in (
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact,delete", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "nothing", "compact"),
    ):
        assert alter(client, TOPIC, "lists", (key, operation, text)).error_code == 0
        assert value(client, TOPIC, "lists", key) == expected


def test_a_list_starts_from_kafkas_default_whatever_the_broker_has(tmp_path: Path) -> None:
    with broker(tmp_path, log_cleanup_policy="compact") as running, running.client() as client:
        client.create("t")
        assert value(client, TOPIC, "t", "cleanup.policy") == "compact"
        alter(client, TOPIC, "t", ("cleanup.policy", APPEND, "compact"))
        assert value(client, TOPIC, "t", "cleanup.policy") == "delete,compact"


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
def test_only_lists_grow_and_shrink(client: Client, operation: int) -> None:
    client.create(f"no-list-{operation}")
    result = alter(client, TOPIC, f"no-list-{operation}", ("retention.ms", operation, "1"))
    assert result.error_code == ErrorCode.invalid_config
    assert "is not allowed for config key: retention.ms" in result.error_message


def test_an_operation_nobody_knows_is_refused(client: Client) -> None:
    client.create("op")
    result = alter(client, TOPIC, "op", ("retention.ms", 9, "1"))
    assert result.error_code == ErrorCode.invalid_request
    assert result.error_message == "Unknown operations type 9"


def test_of_two_alterations_at_once_none_is_lost(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        keys = ["retention.ms", "segment.ms", "flush.ms", "max.message.bytes", "retention.bytes"]
        clients = [running.client() for _ in keys]
        clients[0].create("t")
        for client, key in zip(clients, keys, strict=True):
            client.send(
                ApiKey.INCREMENTAL_ALTER_CONFIGS,
                1,
                resources=(resource(TOPIC, "t", (key, SET, "12345")),),
            )
        for client in clients:
            client.receive(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
        assert [value(clients[0], TOPIC, "t", key) for key in keys] == ["12345"] * len(keys)
        for client in clients:
            client.close()


# -- replacing ----------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_replacing_forgets_what_is_not_named(client: Client, version: int) -> None:
    name = f"all-{version}"
    client.create(name, 1, segment_ms="5")
    (result,) = replace(client, resource(TOPIC, name, ("retention.ms", SET, "7")), version=version)
    assert (result.error_code, result.error_message) == (ErrorCode.none, None)
    assert value(client, TOPIC, name, "retention.ms") == "7"
    assert value(client, TOPIC, name, "segment.ms") == "604800000"


# -- both ---------------------------------------------------------------------

BOTH = pytest.mark.parametrize("change", [incremental, replace])
Change = Callable[..., Any]


@BOTH
def test_validate_only_changes_nothing(client: Client, change: Change) -> None:
    name = f"only-{change.__name__}"
    client.create(name)
    (good,) = change(client, resource(TOPIC, name, ("retention.ms", SET, "7")), validate_only=True)
    (bad,) = change(client, resource(TOPIC, name, ("retention.ms", SET, "x")), validate_only=True)
    assert (good.error_code, bad.error_code) == (ErrorCode.none, ErrorCode.invalid_config)
    assert value(client, TOPIC, name, "retention.ms") == "604800000"


REFUSED: list[tuple[Any, ErrorCode, str]] = [
    (
        resource(TOPIC, "nowhere", ("retention.ms", SET, "1")),
        ErrorCode.unknown_topic_or_partition,
        "The topic 'nowhere' does not exist.",
    ),
    (
        resource(TOPIC, "", ("retention.ms", SET, "1")),
        ErrorCode.invalid_request,
        "Default topic resources are not allowed.",
    ),
    (
        resource(TOPIC, "here", ("nonsense", SET, "1")),
        ErrorCode.invalid_config,
        "Unknown topic config name: nonsense",
    ),
    (
        resource(TOPIC, "here", ("retention.ms", SET, "x")),
        ErrorCode.invalid_config,
        "Invalid config value for resource ConfigResource(type=TOPIC, name='here'): "
        "Invalid value x for configuration retention.ms: Not a number of type LONG",
    ),
    (
        resource(TOPIC, "here", ("retention.ms", SET, "5"), ("segment.bytes", SET, "1")),
        ErrorCode.invalid_config,
        "Invalid config value for resource ConfigResource(type=TOPIC, name='here'): "
        "Invalid value 1 for configuration segment.bytes",
    ),
    (
        resource(TOPIC, "here", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
        ErrorCode.invalid_request,
        "Error due to duplicate config keys",
    ),
    (
        resource(TOPIC, "here", ("retention.ms", SET, None), ("segment.ms", SET, None)),
        ErrorCode.invalid_request,
        "Null value not supported for : retention.ms, segment.ms",
    ),
    (
        resource(BROKER, "7", ("message.max.bytes", SET, "1")),
        ErrorCode.invalid_request,
        "Unexpected broker id, expected 0, but received 7",
    ),
    (
        resource(BROKER, "x", ("message.max.bytes", SET, "1")),
        ErrorCode.invalid_request,
        "Node id must be an integer, but it is: x",
    ),
    (
        resource(BROKER, "0", ("broker.id", SET, "1")),
        ErrorCode.invalid_request,
        "Cannot update these configs dynamically: Set(broker.id)",
    ),
    (
        resource(BROKER, "", ("ssl.client.auth", SET, "required")),
        ErrorCode.invalid_request,
        "Cannot update these configs at default cluster level, broker id must be specified",
    ),
    (
        resource(BROKER, "0", ("message.max.bytes", SET, "x")),
        ErrorCode.invalid_request,
        "Invalid value x for configuration message.max.bytes",
    ),
    (resource(99, "x", ("a", SET, "1")), ErrorCode.invalid_request, "Unknown resource type 99"),
]


@BOTH
@pytest.mark.parametrize(("wanted", "code", "message"), REFUSED)
def test_what_cannot_be_is_refused_and_changes_nothing(
    client: Client, change: Change, wanted: Any, code: ErrorCode, message: str
) -> None:
    client.call(
        ApiKey.CREATE_TOPICS, topics=(parts(name="here", num_partitions=1, replication_factor=1),)
    )
    (result,) = change(client, wanted)
    assert result.error_code == code
    assert result.error_message.startswith(message)
    assert value(client, TOPIC, "here", "retention.ms") == "604800000"
    assert value(client, BROKER, "0", "message.max.bytes") == "1048588"


@BOTH
def test_a_resource_named_twice_is_refused_twice(client: Client, change: Change) -> None:
    name = f"twice-{change.__name__}"
    client.create(name)
    twice = resource(TOPIC, name, ("retention.ms", SET, "1"))
    results = change(client, twice, twice)
    assert [r.error_code for r in results] == [ErrorCode.invalid_request] * 2
    assert results[0].error_message == "Each resource must appear at most once."


def test_values_that_only_together_are_possible_are_judged_together(client: Client) -> None:
    client.create("lags", 1, min_compaction_lag_ms="10")
    alone = alter(client, TOPIC, "lags", ("max.compaction.lag.ms", SET, "5"))
    assert alone.error_code == ErrorCode.invalid_config
    together = alter(
        client,
        TOPIC,
        "lags",
        ("max.compaction.lag.ms", SET, "5"),
        ("min.compaction.lag.ms", SET, "1"),
    )
    assert together.error_code == ErrorCode.none


# -- effect -------------------------------------------------------------------


def test_a_topics_limit_takes_effect_at_once(client: Client) -> None:
    client.create("limit")
    assert client.produce("limit", [b"x" * 2000]).error_code == ErrorCode.none
    alter(client, TOPIC, "limit", ("max.message.bytes", SET, "1000"))
    assert client.produce("limit", [b"x" * 2000]).error_code == ErrorCode.message_too_large
    alter(client, TOPIC, "limit", ("max.message.bytes", DELETE, None))
    assert client.produce("limit", [b"x" * 2000]).error_code == ErrorCode.none


@pytest.mark.parametrize("who", ["", "0"])
def test_a_brokers_limit_takes_effect_on_topics_without_their_own(tmp_path: Path, who: str) -> None:
    with broker(tmp_path) as running, running.client() as client:
        client.create("plain")
        client.create("own", 1, max_message_bytes="100000")
        result = alter(
            client,
            BROKER,
            who,
            ("message.max.bytes", SET, "1000"),
            ("log.retention.ms", SET, "4444"),
        )
        assert (result.error_code, result.error_message) == (ErrorCode.none, None)
        assert client.produce("plain", [b"x" * 2000]).error_code == ErrorCode.message_too_large
        assert client.produce("own", [b"x" * 2000]).error_code == ErrorCode.none
        client.create("new")
        assert client.produce("new", [b"x" * 2000]).error_code == ErrorCode.message_too_large
        for topic in ("plain", "own", "new"):
            assert value(client, TOPIC, topic, "retention.ms") == "4444"
        (config,) = by_name(describe(client, TOPIC, "plain", ["retention.ms"])).values()
        assert config.config_source == (2 if who else 3)
        alter(client, BROKER, who, ("message.max.bytes", DELETE, None))
        assert client.produce("plain", [b"x" * 2000]).error_code == ErrorCode.none


def test_what_is_set_for_one_broker_comes_before_what_is_set_for_all(tmp_path: Path) -> None:
    with broker(tmp_path, message_max_bytes="3000") as running, running.client() as client:
        alter(client, BROKER, "", ("message.max.bytes", SET, "2000"))
        assert value(client, BROKER, "0", "message.max.bytes") == "2000"
        assert value(client, BROKER, "", "message.max.bytes") == "2000"
        alter(client, BROKER, "0", ("message.max.bytes", SET, "1000"))
        assert value(client, BROKER, "0", "message.max.bytes") == "1000"
        assert value(client, BROKER, "", "message.max.bytes") == "2000"
        (config,) = by_name(
            describe(client, BROKER, "0", ["message.max.bytes"], include_synonyms=True)
        ).values()
        assert [(s.value, s.source) for s in config.synonyms] == [
            ("1000", 2),
            ("2000", 3),
            ("3000", 4),
            ("1048588", 5),
        ]


def test_alterations_survive_a_restart(tmp_path: Path) -> None:
    with broker(tmp_path) as running, running.client() as client:
        client.create("t")
        alter(client, TOPIC, "t", ("retention.ms", SET, "1234"))
        alter(client, BROKER, "", ("message.max.bytes", SET, "1000"))
        alter(client, BROKER, "0", ("log.segment.bytes", SET, "5000000"))
    with broker(tmp_path) as running, running.client() as client:
        assert value(client, TOPIC, "t", "retention.ms") == "1234"
        assert value(client, TOPIC, "t", "segment.bytes") == "5000000"
        assert client.produce("t", [b"x" * 2000]).error_code == ErrorCode.message_too_large


def test_stored_values_that_contradict_the_file_do_not_keep_a_broker_from_starting(
    tmp_path: Path,
) -> None:
    with broker(tmp_path) as running, running.client() as client:
        client.create("t")
        result = alter(client, BROKER, "", ("log.cleaner.min.compaction.lag.ms", SET, "500"))
        assert result.error_code == ErrorCode.none
    with (
        broker(tmp_path, log_cleaner_max_compaction_lag_ms="100") as running,
        running.client() as client,
    ):
        assert client.produce("t").error_code == ErrorCode.none
