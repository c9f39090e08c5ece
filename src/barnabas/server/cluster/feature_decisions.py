"""Decisions about the finalized features of the cluster: by default, and by an operator.

The znode `/feature` has Kafka's format. Status 1 means that an operator, or a controller of Kafka,
has decided: our controller leaves it alone, and a Kafka broker obeys it. With status 0 Kafka's
brokers ignore the levels in it, so ours may use `transaction.version` where all brokers have it,
and a Kafka broker that comes later starts all the same: then our controller takes the level back.
"""

from collections.abc import Mapping
from typing import Final

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.znodes.layout import FinalizedFeatures, VersionRange

TRANSACTION_VERSION: Final = "transaction.version"
# Level 0 is the absence of the feature: old brokers cannot read a range that begins with it.
SUPPORTED: Final[Mapping[str, VersionRange]] = {TRANSACTION_VERSION: VersionRange(1, 2)}

Registered = Mapping[int, Mapping[str, VersionRange] | None]


def decide_default(
    current: FinalizedFeatures | None, live: Registered, assigned: frozenset[int]
) -> FinalizedFeatures | None:
    """The features to write; None leaves the znode as it is.

    `assigned` are the brokers that hold replicas: one that is down may be of Kafka.
    """
    if current is not None and current.enabled:
        return None
    levels = {} if current is None else current.levels
    newest = SUPPORTED[TRANSACTION_VERSION].max_version
    if not all(supports(each, TRANSACTION_VERSION, newest) for each in live.values()):
        wanted: dict[str, int] = {}
    elif TRANSACTION_VERSION in levels or assigned <= live.keys():
        wanted = {TRANSACTION_VERSION: newest}
    else:
        return None
    return None if wanted == levels else FinalizedFeatures(enabled=False, levels=wanted)


def supports(features: Mapping[str, VersionRange] | None, name: str, level: int) -> bool:
    known = None if features is None else features.get(name)
    return known is not None and known.min_version <= level <= known.max_version


def decide_update(
    current: FinalizedFeatures, name: str, level: int, allows_downgrade: bool, live: Registered
) -> FinalizedFeatures:
    """The features after an operator's update; a level below 1 removes the feature.

    Raises  BrokerError(invalid_request)
    """
    if name not in SUPPORTED:
        raise BrokerError(ErrorCode.invalid_request, f"There is no feature {name}.")
    before = current.levels.get(name, 0)
    if level < before and not allows_downgrade:
        raise BrokerError(
            ErrorCode.invalid_request,
            f"{name} is at level {before}: level {level} is a downgrade, which must be allowed.",
        )
    without = [
        str(broker)
        for broker, features in sorted(live.items())
        if level > 0 and not supports(features, name, level)
    ]
    if without:
        raise BrokerError(
            ErrorCode.invalid_request,
            f"Level {level} of {name} is not supported by broker {', '.join(without)}.",
        )
    levels = {key: value for key, value in current.levels.items() if key != name}
    return FinalizedFeatures(enabled=True, levels=levels | ({name: level} if level > 0 else {}))
