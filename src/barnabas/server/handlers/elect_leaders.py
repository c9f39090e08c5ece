"""ElectLeaders (43): a person asks that preferred replicas lead, or that any replica may.

Version notes. Version 0 knows preferred elections only; from 1 on there are unclean ones, and a
code for the whole request.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Final

from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.elect_leaders.v2.response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.base.turns import Turns
from barnabas.controller.decide.steps import (
    ApiError,
)
from barnabas.controller.events import ElectLeaders
from barnabas.controller.states import Selector
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.wire.schema import NO_THROTTLE

DONE: Final = ApiError(ErrorCode.none)
TYPES: Final = {0: Selector.PREFERRED, 1: Selector.OFFLINE_UNCLEAN}


async def handle(broker: Broker, request: ElectLeadersRequest, _: Call) -> ElectLeadersResponse:
    by, turns = TYPES.get(request.election_type), Turns()
    if by is None:
        return await _response(turns, ErrorCode.invalid_request)
    asked = await _asked(request, turns)
    try:
        answers = await broker.controller.ask(ElectLeaders(asked, by))
    except BrokerError as e:
        refused = () if asked is None else asked
        return await _response(turns, e.code, [(each, e.code, e.message) for each in refused])
    outcomes = await turns.listed((each, *(answers[each] or DONE)) for each in sorted(answers))
    if asked is None:  # then those are left out that needed none
        outcomes = [each for each in outcomes if each[1] is not ErrorCode.election_not_needed]
    return await _response(turns, ErrorCode.none, outcomes)


async def _asked(request: ElectLeadersRequest, turns: Turns) -> tuple[TopicPartition, ...] | None:
    if request.topic_partitions is None:
        return None
    named = await turns.listed(
        TopicPartition(topic.topic, index)
        for topic in request.topic_partitions
        for index in topic.partitions
    )
    return tuple(dict.fromkeys(named))


async def _response(
    turns: Turns,
    code: ErrorCode,
    outcomes: Iterable[tuple[TopicPartition, ErrorCode, str | None]] = (),
) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        throttle_time=NO_THROTTLE,
        error_code=code,
        replica_election_results=tuple(
            [
                ReplicaElectionResult(
                    topic=topic,
                    partition_result=tuple(
                        await turns.listed(
                            PartitionResult(
                                partition_id=at.partition, error_code=each, error_message=message
                            )
                            for at, each, message in results
                        )
                    ),
                )
                for topic, results in groupby(outcomes, key=lambda result: result[0].topic)
            ]
        ),
    )
