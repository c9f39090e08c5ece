"""UpdateFeatures (57): finalizes a feature at a level for the whole cluster, or removes it.

Only the controller does. Version notes. Version 0 has `allow_downgrade` where version 1 has a type
of upgrade, and `validate_only`.
"""

from collections import Counter
from typing import Any, Final

from kio.schema.update_features.v1.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.schema.update_features.v1.response import UpdatableFeatureResult, UpdateFeaturesResponse

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.turns import Turns
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE

UPGRADE_ONLY: Final = 1
# An update reads the coordination tree: a few of them for each turn of the loop.
_WEIGHT: Final = 20


async def handle(
    broker: Broker, request: UpdateFeaturesRequest, call: Call
) -> UpdateFeaturesResponse:
    try:
        broker.check_controller()
    except BrokerError as e:
        return _response(e.code, e.message, ())
    sent: Any = call.sent
    turns, updates = Turns(), request.feature_updates
    named = Counter(update.feature for update in updates)
    results = tuple(
        [
            await _update(broker, update, _allows_downgrade(old, call.version), request)
            if named[update.feature] == 1
            else _named_twice(update.feature)
            async for update, old in turns.each(
                zip(updates, sent.feature_updates, strict=True), _WEIGHT
            )
        ]
    )
    return _response(ErrorCode.none, None, results)


def _allows_downgrade(sent: Any, version: int) -> bool:
    return bool(sent.allow_downgrade) if version == 0 else sent.upgrade_type != UPGRADE_ONLY


async def _update(
    broker: Broker, update: FeatureUpdateKey, allows_downgrade: bool, request: UpdateFeaturesRequest
) -> UpdatableFeatureResult:
    try:
        await broker.features.update(
            update.feature, update.max_version_level, allows_downgrade, request.validate_only
        )
    except BrokerError as e:
        return UpdatableFeatureResult(
            feature=update.feature, error_code=e.code, error_message=e.message
        )
    return UpdatableFeatureResult(
        feature=update.feature, error_code=ErrorCode.none, error_message=None
    )


def _named_twice(feature: str) -> UpdatableFeatureResult:
    return UpdatableFeatureResult(
        feature=feature,
        error_code=ErrorCode.invalid_request,
        error_message="Found multiple entries for this feature.",
    )


def _response(
    code: ErrorCode, message: str | None, results: tuple[UpdatableFeatureResult, ...]
) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(
        throttle_time=NO_THROTTLE, error_code=code, error_message=message, results=results
    )
