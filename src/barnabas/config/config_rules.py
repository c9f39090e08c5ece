"""The rules between several broker configs, each with Kafka's message."""

from typing import Protocol

from barnabas.base.errors import ConfigError
from barnabas.config.broker_keys import BROKER_KEYS
from barnabas.config.config_key import Value
from barnabas.config.listeners import Listener


class BrokerValues(Protocol):
    """The part of a broker's config that the rules read."""

    def value(self, name: str) -> Value: ...
    def log_dirs(self) -> list[str]: ...
    def listeners(self) -> list[Listener]: ...
    def advertised(self) -> list[Listener]: ...
    def inter_broker_listener_name(self) -> str: ...
    def max_connections_per_ip_overrides(self) -> dict[str, int]: ...


def check_together(config: BrokerValues) -> None:
    """Raises ConfigError for the first violated rule."""
    _check_identity(config)
    _check_logs(config)
    _check_replication(config)
    _check_connections(config)
    _check_listeners(config)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigError(message)


def _number(config: BrokerValues, *names: str) -> float:
    """The value of the first of these keys that has one."""
    values = (config.value(name) for name in names)
    return next(value for value in values if isinstance(value, int | float))


def _check_identity(config: BrokerValues) -> None:
    broker_id = _number(config, "broker.id")
    _require(
        broker_id == config.value("node.id"),
        "You must set `node.id` to the same value as `broker.id`.",
    )
    if config.value("broker.id.generation.enable"):
        _require(
            -1 <= broker_id <= _number(config, "reserved.broker.max.id"),
            "broker.id must be greater than or equal to -1 and not greater than"
            " reserved.broker.max.id",
        )
    else:
        _require(broker_id >= 0, "broker.id must be greater than or equal to 0")


def _check_logs(config: BrokerValues) -> None:
    _require(
        bool(config.log_dirs()),
        "At least one log directory must be defined via log.dirs or log.dir.",
    )
    _require(
        _number(config, "log.roll.ms", "log.roll.hours") >= 1,
        "log.roll.ms must be greater than or equal to 1",
    )
    _require(
        _number(config, "log.roll.jitter.ms", "log.roll.jitter.hours") >= 0,
        "log.roll.jitter.ms must be greater than or equal to 0",
    )
    _require(
        _number(config, "log.retention.ms", "log.retention.minutes", "log.retention.hours") != 0,
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )
    threads = max(1, _number(config, "log.cleaner.threads"))
    _require(
        _number(config, "log.cleaner.dedupe.buffer.size") // threads > 1024 * 1024,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )
    lag, most = (_number(config, f"log.cleaner.{end}.compaction.lag.ms") for end in ("min", "max"))
    _require(
        lag <= most,
        f"conflict topic config setting min.compaction.lag.ms ({lag}) > max.compaction.lag.ms"
        f" ({most})",
    )


def _check_replication(config: BrokerValues) -> None:
    wait = _number(config, "replica.fetch.wait.max.ms")
    _require(
        wait <= _number(config, "replica.socket.timeout.ms"),
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent"
        " unnecessary socket timeouts",
    )
    _require(
        wait <= _number(config, "replica.lag.time.max.ms"),
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms"
        " to prevent frequent changes in ISR",
    )
    _require(
        config.value("group.coordinator.rebalance.protocols") == ("classic",),
        "group.coordinator.rebalance.protocols can only be classic",
    )


def _check_connections(config: BrokerValues) -> None:
    queued = _number(config, "queued.max.request.bytes")
    # Kafka's default is no limit, so ours follows a larger socket.request.max.bytes.
    _require(
        queued == BROKER_KEYS["queued.max.request.bytes"].default
        or queued <= 0
        or queued >= _number(config, "socket.request.max.bytes"),
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    overrides = config.max_connections_per_ip_overrides()
    _require(
        config.value("max.connections.per.ip") != 0 or bool(overrides),
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides"
        " property is set.",
    )
    idle = _number(config, "connections.max.idle.ms")
    delay = _number(config, "connection.failed.authentication.delay.ms")
    _require(
        idle < 0 or delay < idle,
        f"connection.failed.authentication.delay.ms={delay} should always be less than"
        f" connections.max.idle.ms={idle} to prevent failed authentication responses from timing"
        " out",
    )


def _check_listeners(config: BrokerValues) -> None:
    names = [listener.name for listener in config.listeners()]
    advertised = config.advertised()
    offered = [listener.name for listener in advertised]
    _require(bool(offered), "There must be at least one broker advertised listener.")
    _require(
        config.inter_broker_listener_name() in offered,
        "inter.broker.listener.name must be a listener name defined in advertised.listeners. The"
        f" valid options based on currently configured listeners are {','.join(offered)}",
    )
    _require(
        set(offered) <= set(names),
        "advertised.listeners listener names must be equal to or a subset of the ones defined in"
        f" listeners. Found {','.join(offered)}. The valid options based on the current"
        f" configuration are {','.join(names)}",
    )
    _require(
        all(listener.host != "0.0.0.0" for listener in advertised),
        "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP"
        " address.",
    )
    control = str(config.value("control.plane.listener.name") or "").upper()
    _require(
        not control or control in offered,
        "control.plane.listener.name must be a listener name defined in advertised.listeners. The"
        f" valid options based on currently configured listeners are {','.join(offered)}",
    )
    _require(
        not control or control != config.inter_broker_listener_name(),
        "control.plane.listener.name, when defined, should have a different value from the inter"
        f" broker listener name. Currently they both have the value {control}",
    )
