"""Dynamic broker configs: the values that may change while the broker runs."""

from collections.abc import Mapping
from typing import Final

from barnabas.base.errors import ConfigError
from barnabas.config.broker_keys import broker_key
from barnabas.config.config_key import UpdateMode, Value

# Numbers of threads, also where they are ignored: at least one, and changed by a factor of two
# at most.
_THREADS: Final = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)


def applicable(
    dynamic: Mapping[str, str], cluster_default: bool, warnings: list[str]
) -> dict[str, str]:
    """The stored values that apply; each other one adds a warning."""
    in_force: dict[str, str] = {}
    for name, text in dynamic.items():
        try:
            check_dynamic(name, text, cluster_default)
        except ConfigError as error:
            warnings.append(f"dynamic config ignored: {error}")
        else:
            in_force[name] = text
    return in_force


def check_dynamic(name: str, value: str, cluster_default: bool) -> None:
    """Check a value that is set while running, for this broker or for all.

    Raises  ConfigError with Kafka's message
    """
    key = broker_key(name)
    if key is None:
        return  # as in Kafka: it may be a plugin's
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


def check_threads(before: Mapping[str, Value], after: Mapping[str, Value]) -> None:
    """Check the changes of numbers of threads.

    Raises  ConfigError with Kafka's message, which has other words for log.cleaner.threads there
    """
    for name in _THREADS:
        old, new = before[name], after[name]
        if not isinstance(old, int) or not isinstance(new, int) or old == new:
            continue
        failed = f"Dynamic thread count update validation failed for {name}={new}"
        if new <= 0:
            raise ConfigError(f"{failed}, value should be at least 1")
        if new < old // 2:
            raise ConfigError(f"{failed}, value should be at least half the current value {old}")
        if new > max(old, 1) * 2:
            raise ConfigError(
                f"{failed}, value should not be greater than double the current value {old}"
            )
