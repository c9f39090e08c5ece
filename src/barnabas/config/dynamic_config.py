"""Which broker keys a request, or a stored value, may change while the broker runs."""

from collections.abc import Mapping

from barnabas.base.errors import ConfigError
from barnabas.config.broker_keys import broker_key
from barnabas.config.config_key import UpdateMode


def applicable(
    dynamic: Mapping[str, str], cluster_default: bool, warnings: list[str]
) -> dict[str, str]:
    """Those of the stored values that can be in force; a warning about each other one."""
    in_force: dict[str, str] = {}
    for name, text in dynamic.items():
        try:
            check_dynamic(name, text, cluster_default)
        except ConfigError as error:
            warnings.append(f"dynamic configuration left out: {error}")
        else:
            in_force[name] = text
    return in_force


def check_dynamic(name: str, value: str, cluster_default: bool) -> None:
    """Refuse a value that cannot be set while running, for this broker or for all.

    Raises  ConfigError in Kafka's words
    """
    key = broker_key(name)
    if key is None:
        return  # as Kafka: a plugin might know it
    if key.update is UpdateMode.READ_ONLY and name == key.name:
        raise ConfigError(f"Cannot update these configs dynamically: Set({name})")
    if name.startswith(("ssl.keystore.", "ssl.truststore.", "ssl.key.")):
        raise ConfigError(
            "These security configs can be dynamically updated only per-listener using the"
            f" listener prefix: Set({name})"
        )
    if cluster_default and key.update is not UpdateMode.CLUSTER_WIDE:
        raise ConfigError(
            "Cannot update these configs at default cluster level, broker id must be specified:"
            f" Set({name})"
        )
    key.parse(value)
