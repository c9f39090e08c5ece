"""The way of a request through one broker: from the sockets to the handlers."""

from barnabas.replication.leader.isr_writer import IsrTracker
from barnabas.server.broker import Broker
from barnabas.server.fetching.fetch_collector import FetchCollector
from barnabas.server.fetching.fetch_responder import FetchResponder
from barnabas.server.fetching.follower_fetches import FollowerFetches
from barnabas.server.fetching.replica_selector import read_replica_selector
from barnabas.server.handlers import api_versions
from barnabas.server.handlers.fetch import Fetch
from barnabas.server.handlers.produce import Produce
from barnabas.server.network.socket_server import SocketServer
from barnabas.server.node_state import NodeState
from barnabas.server.requests import api_handlers
from barnabas.server.requests.control_requests import ControlRequests
from barnabas.server.requests.dispatch import Dispatch
from barnabas.server.requests.repeated_transactions import RepeatedTransactions
from barnabas.server.requests.request_throttle import Throttle
from barnabas.wire.apis import ApiKey


def make_socket_server(
    state: NodeState, broker: Broker, control: ControlRequests, isr: IsrTracker
) -> SocketServer:
    """The listeners, not open yet, and all that serves their requests."""
    dispatch, intercept = _dispatch(state, broker, control, isr), state.environment.intercept
    return SocketServer(
        dispatch if intercept is None else intercept.around(dispatch),
        state.quotas,
        state.connections,
        state.failures,
        state.statistics,
        state.environment.is_process,
        state.securities,
    )


def _dispatch(
    state: NodeState, broker: Broker, control: ControlRequests, isr: IsrTracker
) -> Dispatch:
    return Dispatch(
        {ApiKey.PRODUCE: _produce(state, broker), ApiKey.FETCH: _fetch(state, isr)},
        api_handlers.message_handlers(broker, state.delayed) | control.handlers(),
        api_versions.unsupported,
        state.work,
        state.statistics,
        state.environment.offload,
        state.gate,
        state.authorizer,
        Throttle(state.client_quotas, state.environment.stopwatch),
        state.replicas,
        RepeatedTransactions(broker.transactions, state.statistics),
    )


def _produce(state: NodeState, broker: Broker) -> Produce:
    return Produce(
        state.replicas,
        state.environment.clock,
        state.environment.offload,
        state.delayed,
        state.failures,
        state.work,
        state.statistics.by_api[ApiKey.PRODUCE].errors,
        state.config.int("barnabas.message.max.decompressed.bytes"),
        broker.verification,
        state.authorizer,
    )


def _fetch(state: NodeState, isr: IsrTracker) -> Fetch:
    collector = FetchCollector(
        state.replicas,
        state.metadata,
        state.delayed,
        FollowerFetches(state.delayed, state.leader_throttle, isr, state.time),
        state.config.int("fetch.max.bytes"),
        state.failures,
        read_replica_selector(state.config.optional_str("replica.selector.class"), state.metadata),
        state.authorizer,
    )
    errors = state.statistics.by_api[ApiKey.FETCH].errors
    responder = FetchResponder(
        collector,
        state.sessions,
        state.environment.offload,
        state.failures,
        state.work,
        errors,
    )
    return Fetch(
        state.replicas,
        state.metadata,
        state.sessions,
        state.delayed,
        collector,
        responder,
        state.environment.offload,
        errors,
    )
