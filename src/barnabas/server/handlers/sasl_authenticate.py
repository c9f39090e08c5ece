"""SaslAuthenticate (36) outside an authentication: ILLEGAL_SASL_STATE.

The tokens of an authentication never reach a handler: see `SaslAuthenticator`.
"""

from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse

from barnabas.base.errors import ErrorCode
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call


def handle(_: Broker, request: SaslAuthenticateRequest, call: Call) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.illegal_sasl_state,
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
    )
