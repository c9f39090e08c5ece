"""The security of a broker's session with ZooKeeper, from its properties."""

import ssl
from typing import Final

from barnabas.base.errors import ConfigError
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.jaas import jaas_options
from barnabas.znodes.zookeeper.zookeeper_security import OPEN, ZooKeeperSecurity

_JAAS: Final = "barnabas.zookeeper.sasl.jaas.config"
_ENABLED: Final = "zookeeper.ssl.client.enable"


def zookeeper_security(config: BrokerConfig) -> ZooKeeperSecurity:
    """Raises ConfigError."""
    tls = config.bool(_ENABLED)
    jaas = config.optional_str(_JAAS)
    set_acl = config.bool("zookeeper.set.acl")
    if not (tls or jaas or set_acl):
        return OPEN
    login = jaas_options(jaas, _JAAS) if jaas else {}
    has_certificate = tls and config.optional_str("zookeeper.ssl.keystore.location") is not None
    if set_acl and not login and not has_certificate:
        raise ConfigError(
            f"zookeeper.set.acl needs a login with ZooKeeper: {_JAAS}, or a certificate in"
            " zookeeper.ssl.keystore.location"
        )
    return ZooKeeperSecurity(
        _context(config) if tls else None,
        login.get("username", ""),
        login.get("password", ""),
        set_acl,
    )


def _context(config: BrokerConfig) -> ssl.SSLContext:
    from barnabas.client.tls import client_context

    names = (
        "keystore.location",
        "keystore.password",
        "truststore.location",
        "truststore.password",
        "endpoint.identification.algorithm",
    )
    found = {f"ssl.{name}": config.optional_str(f"zookeeper.ssl.{name}") for name in names}
    try:
        return client_context({name: text for name, text in found.items() if text is not None})
    except ConfigError as error:
        raise ConfigError(f"zookeeper.{error}") from None
