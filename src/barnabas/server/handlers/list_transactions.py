"""ListTransactions (66): the transactional ids that this broker coordinates.

Version notes. Version 1 has a filter by duration.
"""

from kio.schema.list_transactions.v1.request import ListTransactionsRequest
from kio.schema.list_transactions.v1.response import ListTransactionsResponse, TransactionState

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.security.acls import Operation, ResourceType
from barnabas.server.broker import Broker
from barnabas.server.requests.dispatch import Call
from barnabas.transactions.transaction_metadata import TransactionMetadata
from barnabas.transactions.transaction_state import TransactionState as State
from barnabas.wire.schema import NO_THROTTLE


def handle(
    broker: Broker, request: ListTransactionsRequest, call: Call
) -> ListTransactionsResponse:
    known = {state.value for state in State}
    unknown = tuple(name for name in request.state_filters if name not in known)
    try:
        transactions = list(broker.transactions.all())
    except BrokerError as e:
        return ListTransactionsResponse(
            throttle_time=NO_THROTTLE,
            error_code=e.code,
            unknown_state_filters=(),
            transaction_states=(),
        )
    producers, states = frozenset(request.producer_id_filters), frozenset(request.state_filters)
    waited_ms, now_ms = request.duration_filter, broker.clock.now_ms()
    return ListTransactionsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        unknown_state_filters=unknown,
        transaction_states=tuple(
            TransactionState(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state.value,
            )
            for each in transactions
            if _is_asked_for(each, producers, states)
            and (waited_ms < 0 or (each.start_ms >= 0 and now_ms - each.start_ms > waited_ms))
            and call.access.may(
                Operation.DESCRIBE,
                ResourceType.TRANSACTIONAL_ID,
                each.transactional_id,
                log_if_denied=False,
            )
        ),
    )


def _is_asked_for(
    each: TransactionMetadata, producers: frozenset[int], states: frozenset[str]
) -> bool:
    """True if a transaction passes both filters; an empty filter lets all pass."""
    return (not producers or each.producer_id in producers) and (
        not states or each.state.value in states
    )
