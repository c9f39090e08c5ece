"""The settings of the parts of a broker, read from its properties."""

import ipaddress
import logging
import socket
from typing import Final

from barnabas.base.clock import SystemClock
from barnabas.base.errors import ConfigError
from barnabas.base.randomness import Random
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.listeners import Listener
from barnabas.controller.handle.active_controller import ControllerSettings
from barnabas.replication.follower.fetcher import FetcherSettings
from barnabas.security.acl_cache import AclCache
from barnabas.security.acl_decision import Rules
from barnabas.security.acls import InvalidAcl, check_principal
from barnabas.security.authorizer import Authorizer
from barnabas.security.client_quotas import Window
from barnabas.server.cluster.configs import Configs
from barnabas.server.maintenance.housekeeping import Intervals
from barnabas.server.maintenance.log_cleaner import CleanerSettings
from barnabas.server.metrics.metrics_listener import Address, parse_address
from barnabas.server.network.connection_quotas import Limits, ListenerLimits
from barnabas.server.network.listener_security import ListenerSecurities

log = logging.getLogger("barnabas.security")

# Rolled segments are flushed within this time.
FLUSH_CHECK_MS: Final = 1_000
ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"


def check_security(config: BrokerConfig) -> None:
    """Raises ConfigError for security that is configured and not served: it must not be lacking
    without anybody's knowledge."""
    if unserved := config.unserved_security():
        raise ConfigError(
            f"{', '.join(unserved)}: not supported; remove the property to run a broker without it"
        )
    for name in config.handler_classes():
        raise ConfigError(f"{name}: no class is ever loaded by its name; only Kafka's are known")
    name = config.inter_broker_listener_name()
    protocol = next((each.protocol for each in config.listeners() if each.name == name), "")
    values = config.of_listener(name)
    mechanism = values.text("sasl.mechanism.inter.broker.protocol").upper()
    enabled = values.text("sasl.enabled.mechanisms").upper().split(",")
    if protocol.startswith("SASL") and mechanism not in [each.strip() for each in enabled]:
        raise ConfigError(
            "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms when"
            f" SASL is used for inter-broker communication; {mechanism} is not"
        )


def check_listeners(config: BrokerConfig) -> None:
    """Raises ConfigError, if the TLS or SASL of a listener cannot be made."""
    if any(each.protocol != "PLAINTEXT" for each in config.listeners()):
        ListenerSecurities(config, SystemClock(), Random())


def warn_if_open(config: BrokerConfig) -> None:
    """Log one line if strangers can do everything: listeners beyond this machine that do not ask
    who a client is.
    """
    for each in config.listeners():
        values = config.of_listener(each.name)
        has_certificates = each.protocol == "SSL" and values.text("ssl.client.auth") == "required"
        if each.protocol.startswith("SASL") or has_certificates or _is_loopback(each.host):
            continue
        log.warning(
            "listener %s is open to everyone who reaches it: it does not authenticate clients;"
            " see docs/security.md",
            each,
        )
        return


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def make_authorizer(config: BrokerConfig) -> Authorizer | None:
    """The authorizer, or None without one. Raises ConfigError for one that is not served."""
    name = config.str("authorizer.class.name")
    if not name:
        return None
    if name != ACL_AUTHORIZER:
        raise ConfigError(f"authorizer.class.name: {name} is not known, only {ACL_AUTHORIZER}")
    users = (config.optional_str("super.users") or "").split(";")
    named = [user.strip() for user in users if user.strip()]
    for user in named:
        try:
            check_principal(user)
        except InvalidAcl as e:
            raise ConfigError(f"super.users: {e}") from e
    everyone = config.bool("allow.everyone.if.no.acl.found")
    return Authorizer(AclCache(), Rules(frozenset(named), everyone))


def quota_windows(config: BrokerConfig) -> tuple[Window, Window]:
    """The windows of client quotas, and of the quota on changes of topics."""
    return (
        Window(config.int("quota.window.num"), config.int("quota.window.size.seconds")),
        Window(
            config.int("controller.quota.window.num"),
            config.int("controller.quota.window.size.seconds"),
        ),
    )


def advertised(config: BrokerConfig, opened: list[Listener]) -> dict[str, tuple[str, int]]:
    """The advertised listeners: as configured, with the port that was bound where it is 0.

    Without a host, as for a listener on every interface, it is this machine's name, as Kafka's,
    or localhost if that name cannot be resolved here.
    """
    ports = {listener.name: listener.port for listener in opened}
    return {
        listener.name: (listener.host or _own_name(), listener.port or ports[listener.name])
        for listener in config.advertised()
    }


def _own_name() -> str:
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "localhost"
    return name


def metrics_address(config: BrokerConfig) -> Address | None:
    """The address of the metrics listener; None without one. Raises ConfigError."""
    text = config.optional_str("barnabas.metrics.listener")
    return parse_address(text) if text else None


def limits(config: BrokerConfig) -> Limits:
    queued, listeners = config.long("queued.max.request.bytes"), config.listeners()
    return Limits(
        socket_request_max_bytes=config.int("socket.request.max.bytes"),
        connections_max_idle_ms=config.long("connections.max.idle.ms"),
        max_connections=config.int("max.connections"),
        max_connections_per_ip=config.int("max.connections.per.ip"),
        per_ip_overrides=config.max_connections_per_ip_overrides(),
        max_connection_creation_rate=config.int("max.connection.creation.rate"),
        of_listeners={each.name: _listener_limits(config, each.name) for each in listeners},
        protected_listener=config.inter_broker_listener_name() if len(listeners) > 1 else "",
        socket_listen_backlog_size=config.int("socket.listen.backlog.size"),
        queued_max_request_bytes=max(queued, config.int("socket.request.max.bytes"))
        if queued > 0
        else -1,
        receive_stall_timeout_ms=config.long("barnabas.receive.stall.timeout.ms"),
        socket_send_buffer_bytes=config.int("socket.send.buffer.bytes"),
        socket_receive_buffer_bytes=config.int("socket.receive.buffer.bytes"),
    )


def _listener_limits(config: BrokerConfig, listener: str) -> ListenerLimits:
    values = config.of_listener(listener)
    return ListenerLimits(
        int(values.text("max.connections")), int(values.text("max.connection.creation.rate"))
    )


def intervals(config: BrokerConfig) -> Intervals:
    return Intervals(
        flush_ms=min(config.long("log.flush.scheduler.interval.ms"), FLUSH_CHECK_MS),
        retention_ms=config.long("log.retention.check.interval.ms"),
        checkpoint_ms=max(1, _checkpoint_ms(config)),
        producer_expiration_ms=config.int("producer.id.expiration.check.interval.ms"),
        offset_expiration_ms=config.long("offsets.retention.check.interval.ms"),
    )


def _checkpoint_ms(config: BrokerConfig) -> int:
    """The shortest of the intervals: all checkpoints are written together."""
    return min(
        config.int("log.flush.offset.checkpoint.interval.ms"),
        config.int("log.flush.start.offset.checkpoint.interval.ms"),
        config.long("replica.high.watermark.checkpoint.interval.ms"),
    )


class BrokerSettings:
    """Settings that dynamic properties change: each call reads the properties of now."""

    def __init__(self, configs: Configs) -> None:
        self._configs = configs

    def max_lag_ms(self) -> int:
        return self._configs.broker.int("replica.lag.time.max.ms")

    def controller(self) -> ControllerSettings:
        config = self._configs.broker
        return ControllerSettings(
            auto_leader_rebalance=config.bool("auto.leader.rebalance.enable"),
            imbalance_percentage=config.int("leader.imbalance.per.broker.percentage"),
            imbalance_check_interval_s=config.long("leader.imbalance.check.interval.seconds"),
            delete_topic_enabled=config.bool("delete.topic.enable"),
            unclean_leader_election=config.bool("unclean.leader.election.enable"),
            request_timeout_s=config.int("controller.socket.timeout.ms") / 1000,
        )

    def fetcher(self) -> FetcherSettings:
        config = self._configs.broker
        return FetcherSettings(
            fetchers=config.int("num.replica.fetchers"),
            wait_max_ms=config.int("replica.fetch.wait.max.ms"),
            min_bytes=config.int("replica.fetch.min.bytes"),
            max_bytes=config.int("replica.fetch.max.bytes"),
            response_max_bytes=config.int("replica.fetch.response.max.bytes"),
            backoff_ms=config.int("replica.fetch.backoff.ms"),
            socket_timeout_ms=config.int("replica.socket.timeout.ms"),
        )

    def cleaner(self) -> CleanerSettings:
        config = self._configs.broker
        return CleanerSettings(
            threads=config.int("log.cleaner.threads"),
            dedupe_buffer_size=config.long("log.cleaner.dedupe.buffer.size"),
            io_buffer_size=config.int("log.cleaner.io.buffer.size"),
            io_buffer_load_factor=config.double("log.cleaner.io.buffer.load.factor"),
            io_max_bytes_per_second=config.double("log.cleaner.io.max.bytes.per.second"),
            backoff_ms=config.long("log.cleaner.backoff.ms"),
        )
