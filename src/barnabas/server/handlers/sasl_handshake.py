"""SaslHandshake (17) of a client that is authenticated: it authenticates again (KIP-368).

Version notes. Frames of clients that are not authenticated never reach a handler: see
`SaslAuthenticator`. On a listener without SASL the answer is ILLEGAL_SASL_STATE.
"""

from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from barnabas.base.errors import ErrorCode
from barnabas.server.broker import Broker
from barnabas.server.network.sasl_authenticator import SaslAuthenticator
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import Message


def handle(_: Broker, request: SaslHandshakeRequest, call: Call) -> Message:
    authentication = call.connection.authentication
    if isinstance(authentication, SaslAuthenticator):
        return authentication.handshake(request.mechanism, call.version, call.connection)
    return SaslHandshakeResponse(error_code=ErrorCode.illegal_sasl_state, mechanisms=())
