"""ApiVersions (18): which APIs are served, at which versions.

Version notes. A version too new for us is answered in version 0 with UNSUPPORTED_VERSION
and our own range of this API, and the client tries again within it (KIP-511). The
response header is always the oldest one, since the client cannot know better yet.
"""

import re
import struct
from typing import Final

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

from barnabas.base.errors import ErrorCode
from barnabas.server.cluster.feature_decisions import SUPPORTED
from barnabas.server.cluster.features import Features
from barnabas.server.requests.dispatch import Call
from barnabas.wire.apis import APIS, UNADVERTISED, ApiKey
from barnabas.wire.schema import NO_THROTTLE

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

_RANGES: Final = {
    key: ApiVersion(api_key=int(key), min_version=api.advertised_lowest, max_version=api.highest)
    for key, api in APIS.items()
    if key not in UNADVERTISED
}


_SUPPORTED: Final = tuple(
    SupportedFeatureKey(name=name, min_version=of.min_version, max_version=of.max_version)
    for name, of in SUPPORTED.items()
)


def handle(features: Features, request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    code = ErrorCode.none
    ranges = tuple(_RANGES[key] for key in call.served if key in _RANGES)
    if call.version >= 3:
        software = request.client_software_name
        if _SOFTWARE.fullmatch(software) and _SOFTWARE.fullmatch(request.client_software_version):
            call.connection.software = f"{software} {request.client_software_version}"
        else:
            code = ErrorCode.invalid_request
    return ApiVersionsResponse(
        error_code=code,
        api_keys=ranges if code == ErrorCode.none else (),
        throttle_time=NO_THROTTLE,
        supported_features=_SUPPORTED,
        finalized_features_epoch=features.epoch,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=1)
            for name, level in features.finalized.levels.items()
        ),
    )


def unsupported(correlation_id: int) -> bytes:
    """The answer to a version of ApiVersions that is not served."""
    api = APIS[ApiKey.API_VERSIONS]
    return struct.pack(
        ">iihihhh",
        16,
        correlation_id,
        ErrorCode.unsupported_version,
        1,
        ApiKey.API_VERSIONS,
        api.lowest,
        api.highest,
    )
