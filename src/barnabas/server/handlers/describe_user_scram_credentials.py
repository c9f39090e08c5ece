"""DescribeUserScramCredentials (50): the mechanisms and iterations of users, never their keys."""

from collections import Counter

from kio.schema.describe_user_scram_credentials.v0.request import (
    DescribeUserScramCredentialsRequest,
)
from kio.schema.describe_user_scram_credentials.v0.response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.security.scram_credentials import MECHANISM_NUMBERS
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


def handle(
    broker: Broker, request: DescribeUserScramCredentialsRequest, _: Call
) -> DescribeUserScramCredentialsResponse:
    named = Counter(user.name for user in request.users or ())
    users = list(named) or broker.users.users()
    return DescribeUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        results=tuple(_result(broker, user, named[user]) for user in users),
    )


def _result(broker: Broker, user: str, times_named: int) -> DescribeUserScramCredentialsResult:
    code, message, found = ErrorCode.none, None, ()
    try:
        if times_named > 1:
            raise BrokerError(
                ErrorCode.duplicate_resource,
                f"Cannot describe SCRAM credentials for the same user twice in a single request:"
                f" {user}",
            )
        found = tuple(
            CredentialInfo(mechanism=MECHANISM_NUMBERS[mechanism], iterations=credential.iterations)
            for mechanism, credential in sorted(broker.users.describe(user).items())
        )
    except BrokerError as e:
        code, message = e.code, str(e)
    return DescribeUserScramCredentialsResult(
        user=user, error_code=code, error_message=message, credential_infos=found
    )
