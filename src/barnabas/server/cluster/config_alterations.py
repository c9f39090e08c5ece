"""The alterations of IncrementalAlterConfigs: a property is set, deleted, appended to or subtracted
from."""

import enum
from typing import NamedTuple

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.config.config_key import ConfigKey, ConfigType


class Operation(enum.IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    """The new value of one property; None only if it is deleted."""

    name: str
    operation: Operation
    value: str | None


def apply_alteration(wanted: dict[str, str], alteration: Alteration, key: ConfigKey | None) -> None:
    """Alter what is set on one resource.

    A list grows or shrinks from what is set there, else from Kafka's default, whatever else the
    brokers are configured to.

    Raises  BrokerError(invalid_config), nothing changed, for items of a property that is no list
    """
    name, operation, value = alteration
    if operation is Operation.DELETE:
        wanted.pop(name, None)
        return
    assert value is not None
    if operation is Operation.SET:
        wanted[name] = value
        return
    if key is None or key.type is not ConfigType.LIST:
        raise BrokerError(
            ErrorCode.invalid_config,
            f"Config value {operation.name.lower()} is not allowed for config key: {name}",
        )
    items = [item for item in wanted.get(name, key.default_text or "").split(",") if item]
    changed = [item.strip() for item in value.split(",")]
    if operation is Operation.APPEND:
        items += [item for item in changed if item not in items]
    else:
        items = [item for item in items if item not in changed]
    wanted[name] = ",".join(items)
