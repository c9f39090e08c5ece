"""Connections to other brokers, with the security of the inter-broker listener.

A broker that does not trust us, or that we do not trust, may do so after its next reload: for the
owner of a connection it is a broker that is not reached, and it tries again.
"""

from collections.abc import Mapping

from barnabas.base.errors import PeerGone
from barnabas.client.connection import AsyncConnection
from barnabas.client.security import PLAINTEXT, AuthenticationFailed, SecurityContext
from barnabas.config.broker_config import BrokerConfig
from barnabas.server.cluster.configs import Configs


def peer_properties(config: BrokerConfig) -> dict[str, str]:
    """The properties of a client that connects to the inter-broker listener."""
    name = config.inter_broker_listener_name()
    protocol = next(each.protocol for each in config.listeners() if each.name == name)
    values = config.of_listener(name)
    mechanism = values.text("sasl.mechanism.inter.broker.protocol").upper()
    properties = values.all("ssl.", "sasl.oauthbearer.")
    properties |= {"security.protocol": protocol, "sasl.mechanism": mechanism}
    if jaas := values.of_mechanism(mechanism, "sasl.jaas.config"):
        properties["sasl.jaas.config"] = jaas
    return properties


class PeerConnections:
    """Opens connections to other brokers. A dynamic property may change how."""

    def __init__(self, configs: Configs) -> None:
        self._configs = configs
        self._made_of: Mapping[str, str] = {}
        self._security = PLAINTEXT

    async def connect(
        self, host: str, port: int, client_id: str, timeout_s: float
    ) -> AsyncConnection:
        """Raises PeerGone, also if either side does not trust the other."""
        try:
            return await AsyncConnection.connect(
                host,
                port,
                client_id=client_id,
                timeout_s=timeout_s,
                security=self._current(),
            )
        except AuthenticationFailed as failed:
            raise PeerGone(f"authentication failed: {failed}") from failed

    def _current(self) -> SecurityContext:
        properties = peer_properties(self._configs.broker)
        if properties["security.protocol"] == "PLAINTEXT":
            return PLAINTEXT
        if properties != self._made_of:
            self._security = SecurityContext.of(properties)
            self._made_of = properties
        return self._security
