"""AlterUserScramCredentials (51): the controller sets or deletes credentials, user by user."""

from kio.schema.alter_user_scram_credentials.v0.request import AlterUserScramCredentialsRequest
from kio.schema.alter_user_scram_credentials.v0.response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.server.broker import Broker
from barnabas.server.cluster.user_credentials import CredentialDeletion, Upsertion
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE


async def handle(
    broker: Broker, request: AlterUserScramCredentialsRequest, _: Call
) -> AlterUserScramCredentialsResponse:
    deletions = [CredentialDeletion(each.name, each.mechanism) for each in request.deletions]
    upsertions = [
        Upsertion(each.name, each.mechanism, each.iterations, each.salt, each.salted_password)
        for each in request.upsertions
    ]
    outcomes: dict[str, BrokerError | None]
    try:
        broker.check_controller()
        outcomes = await broker.users.alter(deletions, upsertions)
    except BrokerError as error:
        users = [*(each.user for each in deletions), *(each.user for each in upsertions)]
        outcomes = dict.fromkeys(users, error)
    return AlterUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(_result(user, error) for user, error in outcomes.items()),
    )


def _result(user: str, error: BrokerError | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(
        user=user,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else str(error),
    )
